import * as tf from '@tensorflow/tfjs';
import { createOptimizer, type OptimizerName, type OptimizerOptions } from '../../../src/optim/index.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { createRng } from '../../../src/util/rng.ts';
import type { Suite } from '../suite.ts';

/** A dense layer with tanh, and a dense layer of logits. Kernels are [inputs, outputs]. */
const SHAPES = [[8, 16], [16], [16, 3], [3]];
const [INPUTS, CLASSES] = [8, 3];
/** Number of samples of a rank in a step. */
const BATCH = 8;
const STEPS = 60;
const WORLD_SIZES = [2, 4];

const OPTIMIZERS: [OptimizerName, OptimizerOptions][] = [
  ['momentum', { learningRate: 0.1, momentum: 0.9 }],
  ['adam', { learningRate: 0.01 }],
  ['adamw', { learningRate: 0.01, weightDecay: 0.1 }],
];

interface Batch {
  x: number[];
  labels: number[];
}

/**
 * Trains a classifier with DistributedDataParallel on 2 and 4 ranks, against PyTorch's
 * DistributedDataParallel over gloo with the same initial weights, samples and optimizer.
 */
export const ddp: Suite = {
  name: 'ddp',
  tolerance: 1e-6,
  compute: async () => {
    const rng = createRng(11);
    const numbers = (length: number): number[] => Array.from({ length }, () => Math.fround(rng.next() - 0.5));
    const start = SHAPES.map((shape) => numbers(tf.util.sizeFromShape(shape)));
    // A label depends on the inputs, so that the loss falls.
    const batch = (): Batch => {
      const x = numbers(BATCH * INPUTS);
      const labels = Array.from({ length: BATCH }, (_, i) => largestOf(x.slice(i * INPUTS, i * INPUTS + CLASSES)));
      return { x, labels };
    };
    const data = Array.from({ length: Math.max(...WORLD_SIZES) }, () => Array.from({ length: STEPS }, batch));
    const cases = [];
    for (const worldSize of WORLD_SIZES) {
      for (const [name, options] of OPTIMIZERS) {
        const trained = await train(start, data, worldSize, createOptimizer.bind(null, name, options));
        cases.push({ name, options, worldSize, ...trained });
      }
    }
    return { start, data, cases };
  },
};

const largestOf = (values: readonly number[]): number => values.indexOf(Math.max(...values));

/** Returns the mean loss of every step over all ranks, and the trained weights. */
async function train(
  start: readonly number[][],
  data: readonly Batch[][],
  worldSize: number,
  optimizerFor: (size: number) => ReturnType<typeof createOptimizer>,
): Promise<{ losses: number[]; weights: number[][] }> {
  const [trained] = await runWorld(worldSize, async (group) => {
    const variables = start.map((values, i) => tf.variable(tf.tensor(values, SHAPES[i])));
    const [kernel1, bias1, kernel2, bias2] = variables as [tf.Variable, tf.Variable, tf.Variable, tf.Variable];
    const parallel = await DistributedDataParallel.create(variables, group);
    const optimizer = optimizerFor(parallel.layout.size);
    const losses: number[] = [];
    for (const { x, labels } of data[group.rank]!) {
      const loss = (): tf.Scalar => {
        const hidden = tf.tanh(tf.tensor2d(x, [BATCH, INPUTS]).matMul(kernel1).add(bias1));
        const logits = hidden.matMul(kernel2).add(bias2);
        return tf.losses.softmaxCrossEntropy(tf.oneHot(tf.tensor1d(labels, 'int32'), CLASSES), logits).asScalar();
      };
      losses.push((await parallel.backward(loss, { samples: BATCH })).loss);
      parallel.step(optimizer);
    }
    const weights = await Promise.all(variables.map(async (variable) => [...(await variable.data())]));
    parallel.dispose();
    tf.dispose(variables);
    return { losses, weights };
  });
  return trained!;
}
