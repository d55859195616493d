/** A page that compares mixed precision with full precision on the GPU. */
import * as tf from '@tensorflow/tfjs';
import { openFastestDevice } from '../../src/engine/device/device.ts';
import { inHalfPrecision, supportsHalfPrecision } from '../../src/gpu/kernels/halfPrecision.ts';
import { linear } from '../../src/gpu/kernels/linear.ts';
import { gradientsOf } from '../../src/parallel/backward/flatten.ts';
import { GradScaler } from '../../src/parallel/backward/gradScaler.ts';
import { systemClock } from '../../src/util/clock.ts';
import { mlp, relativeDifference } from '../parallel/models.ts';

const STEPS = 20;
const RATE = 0.1;
/** Rounding to nearest would round the first one down to 65 504. */
const LARGE = [65505, 65520, 1e5, -1e5, 3e38, Number.NaN];

interface HalfPrecision {
  isSupported: boolean;
  /** Relative differences from full precision: of each op's result, then of its gradients. */
  differences: Record<'matMul' | 'linear', number[]>;
  /** Products with the largest float16 and with factors that are too large for it. */
  largest: number;
  overflows: number[];
  /** Losses of a training in full and in mixed precision. */
  losses: Record<'full' | 'mixed', number[]>;
}

declare global {
  var measureHalfPrecision: () => Promise<HalfPrecision>;
}

const normal = (seed: number, ...shape: number[]): tf.Tensor => tf.randomNormal(shape, 0, 1, 'float32', seed);

const read = (tensors: tf.Tensor[]) => Promise.all(tensors.map((tensor) => tensor.data()));

async function differencesOf(op: (...inputs: tf.Tensor[]) => tf.Tensor, inputs: tf.Tensor[]): Promise<number[]> {
  const results = (): tf.Tensor[] => {
    const { value, grads } = tf.valueAndGrads(op)(inputs, normal(9, 40, 50));
    return [value, ...grads];
  };
  const full = await read(results());
  const half = await read(inHalfPrecision(results));
  return full.map((values, i) => relativeDifference(values, half[i]!));
}

/** Trains with plain gradient descent; without a scaler, in full precision. */
async function train(gradScaler: GradScaler | null): Promise<number[]> {
  const model = mlp(1, { inputs: 20, units: 33, outputs: 4 });
  const variables = model.trainableWeights.map((weight) => weight.read() as tf.Variable);
  const [x, y] = [normal(5, 64, 20), normal(6, 64, 4)];
  const loss = (): tf.Scalar => (model.apply(x) as tf.Tensor).sub(y).square().mean();
  const losses: number[] = [];
  for (let step = 0; step < STEPS; step++) {
    const compute = (scale: number) => gradientsOf(loss, variables, scale);
    const { value, gradients } = gradScaler ? await gradScaler.differentiate(compute) : compute(1);
    losses.push((await value.data<'float32'>())[0]!);
    for (const [i, variable] of variables.entries()) variable.assign(variable.sub(gradients[i]!.mul(RATE)));
  }
  return losses;
}

globalThis.measureHalfPrecision = async () => {
  const device = await openFastestDevice(systemClock, () => Promise.resolve(null));
  const factors = [normal(1, 40, 70), normal(2, 70, 50)];
  const one = tf.ones([1, 1]);
  const large = inHalfPrecision(() => [65504, ...LARGE].map((factor) => tf.matMul(tf.tensor2d([[factor]]), one)));
  const [largest, ...overflows] = (await read(large)).map(([value]) => value!);
  const measured = {
    isSupported: supportsHalfPrecision(),
    differences: {
      matMul: await differencesOf((a, b) => tf.matMul(a, b), factors),
      linear: await differencesOf(
        (x, w, bias) => linear(x, w, { bias, activation: 'gelu' }),
        [...factors, normal(3, 50)],
      ),
    },
    largest: largest!,
    overflows,
    losses: { full: await train(null), mixed: await train(new GradScaler()) },
  };
  device.check();
  return measured;
};
