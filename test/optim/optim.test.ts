import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createOptimizer, type OptimizerName, type OptimizerOptions } from '../../src/optim/index.ts';
import { MismatchError, UsageError } from '../../src/util/errors.ts';
import { hashOfArrays } from '../../src/util/hash.ts';
import { createRng } from '../../src/util/rng.ts';

const NAMES = ['sgd', 'momentum', 'nesterov', 'adam', 'adamw'] as const;

/**
 * Result of PyTorch 2.13 (CPU, float64) for [1, -2, 0.5, 0] after six steps with the gradients of
 * `goldenGradient`.
 */
const TORCH: readonly [OptimizerName, OptimizerOptions, number[]][] = [
  ['sgd', { learningRate: 0.1 }, [-0.05000000000000007, -1.8500000000000005, 0.65, -0.0015]],
  [
    'sgd',
    { learningRate: 0.1, weightDecay: 0.01 },
    [-0.05423676893535595, -1.8384044604048382, 0.6475062412069472, -0.0014980014994001002],
  ],
  ['momentum', { learningRate: 0.1 }, [-1.4766395, -1.55425775, 0.302186, -0.003170310000000001]],
  ['momentum', { learningRate: 0.1, nesterov: true }, [-2.27897555, -1.448831975, 0.4719674, -0.004353279000000001]],
  ['nesterov', { learningRate: 0.1 }, [-2.27897555, -1.448831975, 0.4719674, -0.004353279000000001]],
  [
    'momentum',
    { learningRate: 0.1, dampening: 0.5 },
    [-0.3554595000000001, -1.718559, 0.1668135, -0.0015851550000000004],
  ],
  ['adam', { learningRate: 0.01 }, [0.9417273682366087, -1.9400000024000001, 0.4764664023749122, -0.04271481308012589]],
  [
    'adam',
    { learningRate: 0.01, weightDecay: 0.1 },
    [0.9413361830040989, -1.9400165932107671, 0.4742701906017408, -0.04424133880881069],
  ],
  [
    'adamw',
    { learningRate: 0.01 },
    [0.9411421390437597, -1.9388153003595534, 0.47617782007535286, -0.04270670717433155],
  ],
  [
    'adamw',
    { learningRate: 0.01, beta1: 0.8, beta2: 0.95, epsilon: 1e-6, weightDecay: 0.1 },
    [0.9343369706410748, -1.9281799995797702, 0.4785836991202053, -0.04515593739748739],
  ],
];

function goldenGradient(step: number): Float32Array {
  return Float32Array.of(0.5 * (step + 1), -0.25, 1 - step * 0.5, 0.001 * step);
}

describe('the updates of an optimizer', () => {
  test.each(TORCH)('equal those of PyTorch: %s %o', (name, options, expected) => {
    const params = Float32Array.of(1, -2, 0.5, 0);
    const optimizer = createOptimizer(name, options, 4);
    for (let step = 0; step < 6; step++) optimizer.apply(params, goldenGradient(step));
    expected.forEach((value, i) => expect(params[i]).toBeCloseTo(value, 6));
  });

  test('of Adam move each parameter by the learning rate in the first step, against the sign of its gradient', () => {
    const params = Float32Array.of(1, 1, 1);
    createOptimizer('adam', { learningRate: 0.1 }, 3).apply(params, Float32Array.of(0.5, -300, 1e-3));
    expect(params[0]).toBeCloseTo(0.9, 6);
    expect(params[1]).toBeCloseTo(1.1, 6);
    expect(params[2]).toBeCloseTo(0.9, 4);
  });

  test("of Nesterov with DiLoCo's outer settings equal a calculation by hand", () => {
    const params = Float32Array.of(0);
    const optimizer = createOptimizer('nesterov', { learningRate: 0.7, momentum: 0.9 }, 1);
    optimizer.apply(params, Float32Array.of(1));
    // velocity 1, so 0.7 * (1 + 0.9)
    expect(params[0]).toBeCloseTo(-1.33, 6);
    optimizer.apply(params, Float32Array.of(-0.5));
    // velocity 0.9 - 0.5 = 0.4, so 0.7 * (-0.5 + 0.36) = -0.098
    expect(params[0]).toBeCloseTo(-1.232, 6);
  });

  test('of Adam equal its published algorithm in float64 for 200 steps', () => {
    const size = 20;
    const rng = createRng(3);
    const [rate, beta1, beta2, epsilon] = [0.003, 0.9, 0.999, 1e-8];
    const params = Float32Array.from({ length: size }, () => rng.next() - 0.5);
    const optimizer = createOptimizer('adam', { learningRate: rate }, size);
    const theta = Array.from(params);
    const m = theta.map(() => 0);
    const v = theta.map(() => 0);
    for (let t = 1; t <= 200; t++) {
      const gradient = Float32Array.from({ length: size }, () => rng.next() - 0.4);
      optimizer.apply(params, gradient);
      gradient.forEach((g, i) => {
        m[i] = beta1 * m[i]! + (1 - beta1) * g;
        v[i] = beta2 * v[i]! + (1 - beta2) * g * g;
        const meanHat = m[i] / (1 - beta1 ** t);
        const squareHat = v[i] / (1 - beta2 ** t);
        theta[i]! -= (rate * meanHat) / (Math.sqrt(squareHat) + epsilon);
      });
    }
    theta.forEach((value, i) => expect(Math.abs(params[i]! - value)).toBeLessThan(1e-5));
  });
});

describe('reproducible bits', () => {
  /**
   * Hashes after 100 steps, computed on x64. Every machine must compute the same hashes. They
   * change only if a formula changes.
   */
  const BITS: Record<OptimizerName, string> = {
    sgd: 'd4bf33ab7b8ca976',
    momentum: '161ddcc1089081f0',
    nesterov: '8b29ecf4020d240c',
    adam: '196675abaf9d91e7',
    adamw: '1fff0c81fe3b7f25',
  };

  test.each(NAMES)('%s has the same state hash on every machine after 100 steps', async (name) => {
    expect(hashOfArrays(run(name, 100).parts)).toBe(BITS[name]);
  });

  test.each(NAMES)('%s continues from a saved state with the same bits', (name) => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 12 }), (at) => {
        const whole = run(name, 12);
        const first = run(name, at);
        const saved = first.optimizer.state();
        const resumed = createOptimizer(name, { learningRate: 1 }, SIZE);
        resumed.load({ name, scalars: saved.scalars.slice(), slots: saved.slots.map((slot) => slot.slice()) });
        const params = first.params.slice();
        for (let step = at; step < 12; step++) resumed.apply(params, gradientOf(step));
        expect(params).toEqual(whole.params);
        expect(resumed.state()).toEqual(whole.optimizer.state());
      }),
      { numRuns: 13 },
    );
  });

  const SIZE = 257;

  function gradientOf(step: number): Float32Array {
    const rng = createRng(step + 100);
    return Float32Array.from({ length: SIZE }, () => (rng.next() - 0.5) * (rng.below(3) - 0.5));
  }

  function run(name: OptimizerName, steps: number) {
    const rng = createRng(1);
    const params = Float32Array.from({ length: SIZE }, () => rng.next() - 0.5);
    const optimizer = createOptimizer(name, { learningRate: 0.003, weightDecay: 0.02 }, SIZE);
    for (let step = 0; step < steps; step++) optimizer.apply(params, gradientOf(step));
    const { scalars, slots } = optimizer.state();
    return { params, optimizer, parts: [params, scalars, ...slots] };
  }
});

describe.each(NAMES)('%s', (name) => {
  const make = (size: number) => createOptimizer(name, { learningRate: 0.1 }, size);

  test('rejects arrays of a different length, and changes nothing', () => {
    const optimizer = make(3);
    const before = structuredClone(optimizer.state());
    const params = new Float32Array(4);
    expect(() => optimizer.apply(params, new Float32Array(3))).toThrow(UsageError);
    expect(() => optimizer.apply(new Float32Array(3), new Float32Array(2))).toThrow('created for 3 parameters');
    expect(optimizer.state()).toEqual(before);
  });

  test('rejects the state of a different size or optimizer, and changes nothing', () => {
    const optimizer = make(3);
    const before = structuredClone(optimizer.state());
    for (const other of NAMES) {
      const state = createOptimizer(other, { learningRate: 0.1 }, 3).state();
      if (other !== name) expect(() => optimizer.load(state)).toThrow(MismatchError);
    }
    if (name !== 'sgd') expect(() => optimizer.load(make(2).state())).toThrow(MismatchError);
    expect(optimizer.state()).toEqual(before);
  });

  test('updates the given ranges as an update of the whole array does, and nothing outside of these ranges', () => {
    const [params, parts] = [Float32Array.of(1, 2, 3, 4, 5), Float32Array.of(1, 2, 3, 4, 5)];
    const [whole, ranged] = [make(5), make(5)];
    const ranges = [
      { start: 0, end: 2 },
      { start: 3, end: 4 },
      { start: 5, end: 5 },
    ];
    for (let step = 1; step <= 3; step++) {
      const gradient = Float32Array.of(0.1 * step, -1, 2, 0.3, -step);
      whole.apply(params, gradient);
      ranged.apply(parts, gradient, ranges);
    }
    for (const [part, all, untouched] of [
      [parts, params, [3, 5]],
      ...ranged.state().slots.map((slot, i) => [slot, whole.state().slots[i]!, [0, 0]] as const),
    ] as const) {
      expect(Array.from(part)).toEqual([all[0], all[1], untouched[0], all[3], untouched[1]]);
    }
    expect(ranged.state().scalars).toEqual(whole.state().scalars);
  });

  test.each([[{ start: 0, end: 4 }], [{ start: -1, end: 2 }], [{ start: 2, end: 1 }]])(
    'rejects the range %o of an array of 3, and changes nothing',
    (range) => {
      const optimizer = make(3);
      const params = Float32Array.of(1, 1, 1);
      expect(() => optimizer.apply(params, Float32Array.of(1, 1, 1), [{ start: 0, end: 1 }, range])).toThrow(
        UsageError,
      );
      expect(params).toEqual(Float32Array.of(1, 1, 1));
    },
  );

  test('does not change the gradient', () => {
    const gradient = Float32Array.of(1, -2);
    make(2).apply(new Float32Array(2), gradient);
    expect(gradient).toEqual(Float32Array.of(1, -2));
  });

  test('NaN and infinity affect only their own parameter', () => {
    const params = Float32Array.of(1, 1, 1, Infinity);
    const optimizer = make(4);
    optimizer.apply(params, Float32Array.of(NaN, Infinity, 0.5, 0.5));
    optimizer.apply(params, Float32Array.of(0, 0, 0.5, 0.5));
    expect(params[0]).toBeNaN();
    expect(Number.isFinite(params[1])).toBe(false);
    expect(params[2]).toBeLessThan(1);
    expect(params[3]).toBe(Infinity);
  });

  test('uses a changed learning rate from the next step on, and has it in its state', () => {
    const optimizer = make(1);
    optimizer.learningRate = 0.5;
    expect(optimizer.learningRate).toBe(0.5);
    expect(optimizer.state().scalars[0]).toBe(0.5);
    const params = Float32Array.of(0);
    optimizer.apply(params, Float32Array.of(1));
    // Nesterov's momentum moves the parameter further by 0.9 of the new velocity.
    expect(params[0]).toBeCloseTo(name === 'nesterov' ? -0.95 : -0.5, 6);
    expect(() => (optimizer.learningRate = NaN)).toThrow(UsageError);
  });

  test('accepts an empty model', () => {
    expect(() => make(0).apply(new Float32Array(0), new Float32Array(0))).not.toThrow();
  });

  test.each([{ learningRate: 0 }, { learningRate: Infinity }, { learningRate: 1, weightDecay: -1 }])(
    'rejects %o',
    (options) => {
      expect(() => createOptimizer(name, options, 1)).toThrow(UsageError);
    },
  );
});

test.each([
  ['momentum', { momentum: 1 }],
  ['momentum', { momentum: 0, nesterov: true }],
  ['momentum', { dampening: 0.1, nesterov: true }],
  ['nesterov', { momentum: 0 }],
  ['nesterov', { dampening: 0.1 }],
  ['adam', { beta1: 1 }],
  ['adamw', { beta2: -0.1 }],
  ['adam', { epsilon: NaN }],
] as const)('%s rejects %o', (name, options) => {
  expect(() => createOptimizer(name, { learningRate: 1, ...options }, 1)).toThrow(UsageError);
});

test('a setting that is null has its default, and an error shows the value that was given', () => {
  const [defaults, nulls] = [{}, { beta1: null, weightDecay: null }].map((options) => {
    const params = Float32Array.of(1, 2);
    const optimizer = createOptimizer('adamw', { learningRate: 0.1, ...(options as object) }, 2);
    for (let step = 0; step < 3; step++) optimizer.apply(params, Float32Array.of(0.5, -1));
    return params;
  });
  expect(nulls).toEqual(defaults);
  expect(() => createOptimizer('sgd', {} as { learningRate: number }, 1)).toThrow('learningRate is undefined');
});

test('createOptimizer rejects an unknown name and a size that is not a whole number', () => {
  expect(() => createOptimizer('lion' as OptimizerName, { learningRate: 1 }, 1)).toThrow('use sgd, momentum, nesterov');
  expect(() => createOptimizer('sgd', { learningRate: 1 }, 1.5)).toThrow(UsageError);
});
