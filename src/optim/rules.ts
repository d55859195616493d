/**
 * The table of update rules: the settings, counters and running averages of each optimizer of
 * PyTorch and TensorFlow.js, and their arithmetic on flat arrays.
 *
 * Every rank runs the optimizer itself on the averaged gradient. So replicas stay equal only if the
 * arithmetic has the same bits everywhere. Therefore only `+ - * /` and `Math.sqrt` are used, in
 * float64, and a value is rounded once, when it is stored in a Float32Array. `Math.pow` and
 * `Math.exp` are never used, because their last bits differ between engines.
 *
 * Sources: the algorithm boxes of https://docs.pytorch.org/docs/stable/optim.html, without amsgrad
 * and maximize; src/optimizers of @tensorflow/tfjs-core 4.22.
 */
import type { OptimizerName } from '../spec/names.ts';
import { UsageError } from '../util/errors.ts';
import type { ElementRange } from '../util/range.ts';
import { updateAdamWithVectors } from './vectors.ts';

/** Settings with the names of {@link OptimizerOptions} or of TensorFlow.js's `getConfig`. */
export type OptimizerConfig = Readonly<Record<string, unknown>>;

/** The range of a setting: `low` (default 0) <= number < `high`. A boolean counts as 0 or 1. */
interface Setting {
  low?: number;
  high: number;
  /** The default; without it, the caller must pass the setting. */
  initial?: number | undefined;
}

/**
 * A scalar of the state. Each step adds 1 to it. With `factor`, each step instead multiplies it by
 * the setting of that name.
 */
interface Counter {
  /** The counter's first value, or the name of the setting that contains it. */
  first: number | string;
  factor?: string;
}

/** The data that a rule reads and writes in one step. */
interface Step {
  params: Float32Array;
  gradient: Float32Array;
  /** The elements to update. */
  ranges: readonly ElementRange[];
  slots: readonly Float32Array[];
  /**
   * Returns a setting or counter, rounded as PyTorch or TensorFlow.js does; 0 if the rule does not
   * have it.
   */
  value: (name: string) => number;
  /** Returns 1 - {@link value}, rounded in the same way. */
  rest: (name: string) => number;
}

export interface UpdateRule {
  /** The rule's settings. They are the first scalars of the state, in this order. */
  settings: Readonly<Record<string, Setting>>;
  /** The rule's counters. In the state they follow the settings. */
  counters?: Readonly<Record<string, Counter>>;
  /** Returns the first value of each running average. */
  slots?: (config: OptimizerConfig) => readonly number[];
  /** Settings that the caller cannot change. */
  fixed?: OptimizerConfig;
  /** @throws UsageError for settings that exclude each other. */
  check?: (value: Step['value']) => void;
  /** Whether Adam's weight decay is applied to the parameters, not added to the gradient. */
  isDecoupled?: boolean;
  /**
   * Whether Adam squares a gradient before it multiplies it by 1 - beta2, as TensorFlow.js does.
   * Otherwise it computes ((1 - beta2) * gradient) * gradient, which rounds differently.
   */
  squaresFirst?: boolean;
  update: (step: Step, rule: UpdateRule) => void;
}

/** The rules of PyTorch or of TensorFlow.js, by that library's names. */
export interface OptimizerLibrary<Name extends string> {
  rules: Readonly<Record<Name, UpdateRule>>;
  /**
   * Returns the name that the state of an optimizer contains. It differs between the two libraries,
   * because their states are not compatible.
   */
  stateName: (name: Name) => string;
  /** Rounds settings and counters as PyTorch or TensorFlow.js does. */
  round: (value: number) => number;
  /** Whether the counters in a state are those of the next step, not of the last step. */
  countsAhead: boolean;
}

const share = (initial?: number): Setting => ({ high: 1, initial });
const amount = (initial?: number): Setting => ({ high: Infinity, initial });
const FLAG: Setting = { high: 2, initial: 0 };
const POSITIVE: Setting = { low: Number.MIN_VALUE, high: Infinity };

const ONE = () => [0];
const TWO = () => [0, 0];
/** A counter that is beta^t in step t: each step multiplies it by beta. */
const power = (factor: string, first: number | string): Counter => ({ first, factor });

const DECAYING_RATE = { learningRate: POSITIVE, weightDecay: amount(0) };
const MOMENTUM: UpdateRule = {
  settings: { ...DECAYING_RATE, momentum: share(0.9), dampening: amount(0), nesterov: FLAG },
  counters: { step: { first: 0 } },
  slots: ONE,
  check: (value) => {
    if (value('nesterov') === 0 || (value('momentum') > 0 && value('dampening') === 0)) return;
    throw new UsageError(
      'nesterov needs a momentum above 0 and a dampening of 0. Change these settings, or leave nesterov out.',
    );
  },
  update: momentum,
};
const ADAM: UpdateRule = {
  settings: { ...DECAYING_RATE, beta1: share(0.9), beta2: share(0.999), epsilon: amount(1e-8) },
  counters: { beta1Power: power('beta1', 1), beta2Power: power('beta2', 1) },
  slots: TWO,
  update: adam,
};

/** Rules and defaults of PyTorch, in float64. DiLoCo's outer optimizer is `nesterov`. */
export const TORCH_UPDATE_RULES: OptimizerLibrary<OptimizerName> = {
  stateName: (name) => name,
  round: (value) => value,
  countsAhead: false,
  rules: {
    sgd: { settings: DECAYING_RATE, update: sgd },
    momentum: MOMENTUM,
    nesterov: { ...MOMENTUM, fixed: { nesterov: true } },
    adam: ADAM,
    adamw: { ...ADAM, settings: { ...ADAM.settings, weightDecay: amount(0.01) }, isDecoupled: true },
  },
};

/** TensorFlow.js's default epsilon on devices that compute in 32 bits. */
export const TENSORFLOW_DEFAULT_EPSILON = 1e-7;

const RATE = { learningRate: amount() };
const BETAS = { ...RATE, beta1: share(), beta2: share(), epsilon: amount() };

/**
 * Rules of TensorFlow.js by its class names, which minifiers do not change. Settings are rounded to
 * float32, as TensorFlow.js does: in float32, 1 - 0.999 differs from 0.001 by 1e-5 of its value,
 * and Adam's steps would show the difference. Unlike PyTorch's rules, these accept a learning rate
 * of 0, as at the start of a warm-up. The defaults are those of `getConfig`.
 */
export const TENSORFLOW_UPDATE_RULES: OptimizerLibrary<string> = {
  stateName: (name) => `tf.${name.toLowerCase()}`,
  round: Math.fround,
  countsAhead: true,
  rules: {
    SGD: { settings: RATE, update: sgd },
    Momentum: { settings: { ...RATE, momentum: share(), useNesterov: FLAG }, slots: ONE, update: momentum },
    Adagrad: {
      settings: RATE,
      slots: (config) => [checkedOptimizerSetting(config, 'initialAccumulatorValue', amount())],
      update: adagrad,
    },
    Adadelta: { settings: { ...RATE, rho: share(), epsilon: amount() }, slots: TWO, update: adadelta },
    Adam: {
      settings: BETAS,
      counters: { beta1Power: power('beta1', 'beta1'), beta2Power: power('beta2', 'beta2') },
      slots: TWO,
      squaresFirst: true,
      update: adam,
    },
    Adamax: {
      settings: { ...BETAS, decay: amount() },
      counters: { beta1Power: power('beta1', 'beta1'), step: { first: 0 } },
      slots: TWO,
      update: adamax,
    },
    RMSProp: {
      settings: { ...RATE, decay: share(), momentum: share(), epsilon: amount() },
      slots: ({ centered }) => (centered === true ? [0, 0, 0] : [0, 0]),
      update: rmsprop,
    },
  },
};

/** @throws UsageError unless the setting is a number of its range. */
export function checkedOptimizerSetting(
  config: OptimizerConfig,
  name: string,
  { low = 0, high, initial }: Setting,
): number {
  const given = config[name] ?? initial;
  const value = typeof given === 'number' || typeof given === 'boolean' ? Number(given) : NaN;
  if (value >= low && value < high) return value;
  const least = low > 0 ? 'above 0' : 'of at least 0';
  const allowed = high < Infinity ? `a number ${least} and below ${high}` : `a finite number ${least}`;
  throw new UsageError(`${name} is ${typeof given === 'number' ? given : JSON.stringify(given)}; pass ${allowed}.`);
}

/** `params -= learningRate * (gradient + weightDecay * params)`. */
function sgd({ params, gradient, ranges, value }: Step): void {
  const rate = value('learningRate');
  const decay = value('weightDecay');
  for (const { start, end } of ranges) {
    for (let i = start; i < end; i++) {
      const p = params[i]!;
      // `0 * p` is not added, because it is NaN if the parameter is infinite.
      const g = decay === 0 ? gradient[i]! : gradient[i]! + decay * p;
      params[i] = p - rate * g;
    }
  }
}

/**
 * `velocity = momentum * velocity + (1 - dampening) * gradient; params -= learningRate * velocity`.
 * In the first step the velocity is the whole gradient. With `nesterov`, `gradient + momentum *
 * velocity` replaces the velocity in the second formula: Sutskever et al., "On the importance of
 * initialization and momentum in deep learning" (ICML 2013), in PyTorch's form.
 */
function momentum({ params, gradient, ranges, slots, value, rest }: Step): void {
  const velocity = slots[0]!;
  const rate = value('learningRate');
  const decay = value('weightDecay');
  const keep = value('momentum');
  const take = value('step') === 1 ? 1 : rest('dampening');
  const looksAhead = value('nesterov') + value('useNesterov') > 0;
  for (const { start, end } of ranges) {
    for (let i = start; i < end; i++) {
      const p = params[i]!;
      const g = decay === 0 ? gradient[i]! : gradient[i]! + decay * p;
      const moved = keep * velocity[i]! + take * g;
      velocity[i] = moved;
      params[i] = p - rate * (looksAhead ? g + keep * moved : moved);
    }
  }
}

/**
 * Adam, https://arxiv.org/abs/1412.6980. Both bias corrections are applied outside the loop, which
 * section 2 of the paper allows. Epsilon is added to the corrected root. PyTorch instead divides
 * each root by its correction; that division would be the slowest operation in this loop.
 */
function adam(
  { params, gradient, ranges, slots, value, rest }: Step,
  { isDecoupled = false, squaresFirst = false }: UpdateRule,
): void {
  const mean = slots[0]!;
  const square = slots[1]!;
  const [beta1, beta2] = [value('beta1'), value('beta2')];
  const [take1, take2] = [rest('beta1'), rest('beta2')];
  const root2 = Math.sqrt(rest('beta2Power'));
  const rate = value('learningRate');
  const stepSize = (rate * root2) / rest('beta1Power');
  const epsilon = value('epsilon') * root2;
  const keep = isDecoupled ? 1 - rate * value('weightDecay') : 1;
  const decay = isDecoupled ? 0 : value('weightDecay');
  const coefficients = { beta1, take1, beta2, take2, stepSize, epsilon, keep, decay, squaresFirst };
  for (const { start, end } of ranges) {
    if (updateAdamWithVectors([params, gradient, mean, square], start, end, coefficients)) continue;
    for (let i = start; i < end; i++) {
      const p = params[i]!;
      const g = decay === 0 ? gradient[i]! : gradient[i]! + decay * p;
      const m = beta1 * mean[i]! + take1 * g;
      const v = beta2 * square[i]! + (squaresFirst ? take2 * (g * g) : take2 * g * g);
      mean[i] = m;
      square[i] = v;
      params[i] = p * keep - (stepSize * m) / (Math.sqrt(v) + epsilon);
    }
  }
}

/** `sum += gradient^2; params -= learningRate * gradient / sqrt(sum + 1e-7)`. */
function adagrad({ params, gradient, ranges, slots, value }: Step): void {
  const squares = slots[0]!;
  const rate = value('learningRate');
  const epsilon = Math.fround(TENSORFLOW_DEFAULT_EPSILON);
  for (const { start, end } of ranges) {
    for (let i = start; i < end; i++) {
      const g = gradient[i]!;
      const sum = squares[i]! + g * g;
      squares[i] = sum;
      params[i] = params[i]! - (rate * g) / Math.sqrt(sum + epsilon);
    }
  }
}

/**
 * Adadelta (https://arxiv.org/abs/1212.5701) with two running means: of squared gradients and of
 * squared updates. As in TensorFlow.js, the mean of squared gradients does not include this step's
 * gradient when it divides the update; in the paper and in PyTorch it does. So the two means stay
 * equal, and each update is the gradient.
 */
function adadelta({ params, gradient, ranges, slots, value, rest }: Step): void {
  const gradients = slots[0]!;
  const updates = slots[1]!;
  const rate = value('learningRate');
  const rho = value('rho');
  const take = rest('rho');
  const epsilon = value('epsilon');
  for (const { start, end } of ranges) {
    for (let i = start; i < end; i++) {
      const g = gradient[i]!;
      const before = gradients[i]!;
      const update = (Math.sqrt(updates[i]! + epsilon) / Math.sqrt(before + epsilon)) * g;
      gradients[i] = rho * before + take * (g * g);
      updates[i] = rho * updates[i]! + take * (update * update);
      params[i] = params[i]! - rate * update;
    }
  }
}

/**
 * Adam with a maximum in place of the mean of squares: `norm = max(beta2 * norm, |gradient|)`,
 * `params -= rate / (1 - beta1^t) * mean / (norm + epsilon)`. `decay` divides the learning rate by
 * 1 + decay * (t - 1).
 */
function adamax({ params, gradient, ranges, slots, value, rest }: Step): void {
  const mean = slots[0]!;
  const norms = slots[1]!;
  const [beta1, beta2] = [value('beta1'), value('beta2')];
  const take1 = rest('beta1');
  const epsilon = value('epsilon');
  const stepSize = value('learningRate') / (1 + value('step') * value('decay')) / rest('beta1Power');
  for (const { start, end } of ranges) {
    for (let i = start; i < end; i++) {
      const g = gradient[i]!;
      const m = beta1 * mean[i]! + take1 * g;
      // `Math.max` and `Math.abs` are exact, so every machine computes the same bits.
      const norm = Math.max(beta2 * norms[i]!, Math.abs(g));
      mean[i] = m;
      norms[i] = norm;
      params[i] = params[i]! - (stepSize * m) / (norm + epsilon);
    }
  }
}

/**
 * `velocity = momentum * velocity + learningRate * gradient / root; params -= velocity`. The root
 * is `sqrt(squares+epsilon)`, where `squares` is the running mean of squared gradients. With
 * `centered`, the root is `sqrt(squares-(mean^2+epsilon))`, where `mean` is the running mean of
 * gradients.
 *
 * So with `centered` a parameter becomes NaN as soon as the variance of its gradient is below
 * epsilon, for example if its gradient is zero in the first step. TensorFlow.js does the same;
 * TensorFlow adds epsilon instead.
 */
function rmsprop({ params, gradient, ranges, slots, value, rest }: Step): void {
  const squares = slots[0]!;
  const velocity = slots[1]!;
  const mean = slots[2];
  const rate = value('learningRate');
  const decay = value('decay');
  const take = rest('decay');
  const keep = value('momentum');
  const epsilon = value('epsilon');
  for (const { start, end } of ranges) {
    for (let i = start; i < end; i++) {
      const g = gradient[i]!;
      const square = decay * squares[i]! + take * (g * g);
      squares[i] = square;
      let divisor = square + epsilon;
      if (mean) {
        const m = decay * mean[i]! + take * g;
        mean[i] = m;
        divisor = square - (m * m + epsilon);
      }
      const moved = keep * velocity[i]! + (rate * g) / Math.sqrt(divisor);
      velocity[i] = moved;
      params[i] = params[i]! - moved;
    }
  }
}
