/** Pipelines of several ranks against one rank that holds the whole model. */
import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { createOptimizer } from '../../../src/optim/index.ts';
import { Schedule1F1B, ScheduleGPipe } from '../../../src/parallel/pipeline/pipelineSchedule.ts';
import { PipelineStage, type PipelineStageOptions } from '../../../src/parallel/pipeline/pipelineStage.ts';
import { sequentialLayers } from '../../../src/parallel/pipeline/sequentialLayers.ts';
import { runWorld } from '../../../src/testing/index.ts';

const SCHEDULES = { gpipe: ScheduleGPipe, '1f1b': Schedule1F1B } as const;
const SAMPLES = 16;
const optimizer = (size: number) => createOptimizer('adam', { learningRate: 0.02 }, size);

let tensors = 0;
beforeEach(() => {
  tensors = tf.memory().numTensors;
});
afterEach(() => {
  expect(tf.memory().numTensors).toBe(tensors);
});

/** Six dense layers that are not built. */
function sixLayers(): tf.layers.Layer[] {
  return Array.from({ length: 6 }, (_, i) =>
    tf.layers.dense({
      units: i === 5 ? 2 : 8,
      ...(i === 0 && { inputShape: [4] }),
      ...(i < 5 && { activation: 'tanh' }),
      kernelInitializer: tf.initializers.glorotUniform({ seed: i + 1 }),
    }),
  );
}

/** Six dense layers, each followed by another one. */
function sixWith(next: () => tf.layers.Layer): tf.layers.Layer[] {
  return sixLayers().flatMap((layer) => [layer, next()]);
}

function evenStages(ranks: number): number[] {
  return Array.from(
    { length: ranks },
    (_, rank) => Math.floor((6 * (rank + 1)) / ranks) - Math.floor((6 * rank) / ranks),
  );
}

/** Six layers of the same width. */
const sequentialChain = () =>
  sequentialLayers(
    Array.from({ length: 6 }, (_, i) =>
      tf.layers.dense({
        units: 8,
        ...(i === 0 && { inputShape: [4] }),
        activation: 'tanh',
        kernelInitializer: tf.initializers.glorotUniform({ seed: i + 1 }),
      }),
    ),
  );

function batchOf(step: number, samples = SAMPLES): { inputs: tf.Tensor; targets: tf.Tensor } {
  return {
    inputs: tf.randomNormal([samples, 4], 0, 1, 'float32', step + 1),
    targets: tf.randomNormal([samples, 2], 0, 1, 'float32', step + 1001),
  };
}

const meanSquaredError = (outputs: tf.Tensor, targets: tf.Tensor): tf.Scalar =>
  outputs.sub(targets).square().mean().asScalar();

interface Trained {
  losses: number[];
  outputs: number[] | null;
}

async function train(
  group: ProcessGroup,
  {
    steps = 20,
    microBatches = 4,
    schedule = '1f1b',
    layers = sixLayers(),
    stages = evenStages(group.worldSize),
    samples = SAMPLES,
    clipNorm = null,
    ...options
  }: Partial<PipelineStageOptions> & {
    steps?: number;
    microBatches?: number;
    schedule?: keyof typeof SCHEDULES;
    layers?: tf.layers.Layer[];
    samples?: number;
    clipNorm?: number | null;
  } = {},
): Promise<Trained> {
  const stage = await PipelineStage.create(layers, group, { optimizer, ...options, stages });
  const trainer = new SCHEDULES[schedule](stage, { microBatches, loss: meanSquaredError });
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    const batch = batchOf(step, samples);
    const { loss } = await trainer.step(batch);
    tf.dispose(batch);
    if (clipNorm !== null) await stage.clipGradNorm(clipNorm);
    await stage.step();
    losses.push(loss);
  }
  const batch = batchOf(steps, samples);
  const outputs = await trainer.eval(batch.inputs);
  const values = outputs && Array.from(outputs.dataSync());
  tf.dispose(batch);
  outputs?.dispose();
  stage.dispose();
  return { losses, outputs: values };
}

function largestRelativeDifference(a: readonly number[], b: readonly number[]): number {
  return Math.max(...a.map((value, i) => Math.abs(value - b[i]!) / Math.abs(b[i]!)));
}

describe.each([2, 3, 4])('%i stages', (ranks) => {
  test.each(
    [1, 2, 4, 8].flatMap((microBatches) => [[microBatches, 'gpipe'] as const, [microBatches, '1f1b'] as const]),
  )('with %i micro-batches and %s learn the same as one rank', async (microBatches, schedule) => {
    const [alone] = await runWorld(1, (group) => train(group, { microBatches, schedule }));
    const all = await runWorld(ranks, (group) => train(group, { microBatches, schedule }));
    for (const { losses } of all) {
      expect(losses).toEqual(all[0]!.losses);
      expect(largestRelativeDifference(losses, alone!.losses)).toBeLessThanOrEqual(1e-5);
    }
    expect(all.map(({ outputs }) => outputs !== null)).toEqual(all.map((_, rank) => rank === ranks - 1));
    expect(all.at(-1)!.outputs!).toHaveLength(2 * SAMPLES);
    for (const [i, value] of all.at(-1)!.outputs!.entries()) expect(value).toBeCloseTo(alone!.outputs![i]!, 4);
  });
});

async function inMesh<T>(main: (pipeline: ProcessGroup, data: ProcessGroup) => Promise<T>): Promise<T[]> {
  return runWorld(4, async (world) => {
    const groups = [];
    for (const ranks of [
      [0, 1],
      [2, 3],
      [0, 2],
      [1, 3],
    ])
      groups.push(await world.newGroup(ranks));
    const [pipeline, data] = groups.filter(({ rank }) => rank >= 0);
    return main(pipeline!, data!);
  });
}

test('two replicas of two stages learn the same as one rank with all samples', async () => {
  const [alone] = await runWorld(1, (group) => train(group, { samples: 16, clipNorm: 0.5 }));
  const all = await inMesh(async (pipeline, data) => {
    const stage = await PipelineStage.create(sixLayers(), pipeline, { optimizer, dataGroup: data, stages: [3, 3] });
    const trainer = new Schedule1F1B(stage, { microBatches: 2, loss: meanSquaredError });
    const losses: number[] = [];
    for (let step = 0; step < 20; step++) {
      const batch = batchOf(step, 16);
      const half = {
        inputs: tf.slice(batch.inputs, 8 * data.rank, 8),
        targets: tf.slice(batch.targets, 8 * data.rank, 8),
      };
      const { loss, samples } = await trainer.step(half);
      expect(samples).toBe(16);
      tf.dispose([batch, half]);
      await stage.clipGradNorm(0.5);
      await stage.step();
      losses.push(loss);
    }
    const state = (await stage.parameters.values()).map((values) => Array.from(values));
    stage.dispose();
    return { losses, state };
  });
  for (const { losses } of all) {
    expect(losses).toEqual(all[0]!.losses);
    expect(largestRelativeDifference(losses, alone!.losses)).toBeLessThanOrEqual(1e-5);
  }
  expect(all[2]!.state).toEqual(all[0]!.state);
  expect(all[3]!.state).toEqual(all[1]!.state);
});

test('micro-batches of unequal size are weighted by their samples', async () => {
  const [alone] = await runWorld(1, (group) => train(group, { microBatches: 1, samples: 11, steps: 5 }));
  const [first] = await runWorld(3, (group) => train(group, { microBatches: 4, samples: 11, steps: 5 }));
  expect(largestRelativeDifference(first!.losses, alone!.losses)).toBeLessThanOrEqual(1e-5);
});

test('recomputed activations have the same bits, even with dropout', async () => {
  const options = { stages: [5, 7], steps: 5 };
  const kept = await runWorld(2, (group) =>
    train(group, { ...options, layers: sixWith(() => tf.layers.dropout({ rate: 0.3 })) }),
  );
  const computedAgain = await runWorld(2, (group) =>
    train(group, { ...options, layers: sixWith(() => tf.layers.dropout({ rate: 0.3 })), recompute: true }),
  );
  expect(computedAgain).toEqual(kept);
});

/** A layer of a user. */
class Noise extends tf.layers.Layer {
  static readonly className = 'NoiseOfTest';
  override computeOutputShape(shape: tf.Shape): tf.Shape {
    return shape;
  }
  override call(inputs: tf.Tensor | tf.Tensor[]): tf.Tensor {
    const x = [inputs].flat()[0]!;
    return x.mul(tf.randomUniform(x.shape, 0.5, 1.5)).mul(1 + Math.random());
  }
}

const { layers } = tf;
const recurrent = () => ({
  ...{ units: 4, dropout: 0.3, recurrentDropout: 0.3, returnSequences: true },
  kernelInitializer: tf.initializers.glorotUniform({ seed: 3 }),
  recurrentInitializer: tf.initializers.glorotUniform({ seed: 4 }),
});
const gru = () => layers.gru(recurrent());

/** Layers that draw random numbers, for an input of the shape [batch, 4, 2]. */
const RANDOM_LAYERS: [string, () => tf.layers.Layer][] = [
  ['gaussianNoise', () => layers.gaussianNoise({ stddev: 0.5 })],
  ['gaussianDropout', () => layers.gaussianDropout({ rate: 0.3 })],
  ['alphaDropout', () => layers.alphaDropout({ rate: 0.3 })],
  ['dropout of whole columns', () => layers.dropout({ rate: 0.3, noiseShape: [SAMPLES / 2, 1, 2] })],
  ['spatialDropout1d', () => layers.spatialDropout1d({ rate: 0.3 })],
  ['timeDistributed', () => layers.timeDistributed({ layer: layers.dropout({ rate: 0.3 }) })],
  ['bidirectional', () => layers.bidirectional({ layer: gru(), mergeMode: 'concat' })],
  ['gru', gru],
  ['lstm', () => layers.lstm(recurrent())],
  ['simpleRNN', () => layers.simpleRNN(recurrent())],
  ['a layer of a user', () => new Noise()],
];

interface Masks {
  cell?: { dropoutMask: tf.Tensor | tf.Tensor[] | null; recurrentDropoutMask: tf.Tensor | tf.Tensor[] | null };
  forwardLayer?: Masks;
  backwardLayer?: Masks;
}

/** TensorFlow.js keeps the dropout masks of a recurrent layer's last pass. */
function disposeMasks({ cell, forwardLayer, backwardLayer }: Masks): void {
  tf.dispose([cell?.dropoutMask ?? [], cell?.recurrentDropoutMask ?? []]);
  for (const inner of [forwardLayer, backwardLayer]) if (inner) disposeMasks(inner);
}

test.each(RANDOM_LAYERS)('%s draws the same random numbers again when it is recomputed', async (_, create) => {
  const trained = (recompute: boolean): Promise<Trained[]> =>
    runWorld(2, async (group) => {
      const random = create();
      const six = sixLayers();
      const [first, last] = [six[0]!, six[5]!];
      const chain = [first, layers.reshape({ targetShape: [4, 2] }), random, layers.flatten(), last];
      const result = await train(group, { layers: chain, stages: [2, 3], steps: 3, microBatches: 2, recompute });
      disposeMasks(random as Masks);
      return result;
    });
  expect(await trained(true)).toEqual(await trained(false));
});

test('recomputed batch normalization updates its averages only once', async () => {
  const options = { stages: [5, 7], steps: 5 };
  const kept = await runWorld(2, (group) =>
    train(group, { ...options, layers: sixWith(() => tf.layers.batchNormalization()) }),
  );
  const computedAgain = await runWorld(2, (group) =>
    train(group, { ...options, layers: sixWith(() => tf.layers.batchNormalization()), recompute: true }),
  );
  expect(computedAgain).toEqual(kept);
});

test.each([
  ['fp32', 4],
  ['fp16', 2],
] as const)('with %s, a boundary carries %i bytes for each value, forward and backward', async (codec, bytes) => {
  const width = 8;
  const steps = 10;
  const [alone] = await runWorld(1, (group) => train(group, { steps, samples: 256 }));
  const sent = await runWorld(2, async (group) => {
    const before = group.bytesSent;
    const { losses } = await train(group, { steps, samples: 256, codec });
    // The messages of 2 x 4 micro-batches, their headers, and the small collectives.
    return { losses, bytes: group.bytesSent - before };
  });
  expect(largestRelativeDifference(sent[0]!.losses, alone!.losses)).toBeLessThanOrEqual(codec === 'fp32' ? 1e-5 : 1e-3);
  const formula = 256 * width * bytes * steps;
  expect(sent[1]!.bytes / formula).toBeGreaterThan(1);
  expect(sent[1]!.bytes / formula).toBeLessThan(1.25);
});

test('a ring trains a model whose loss uses weights of the first layer', async () => {
  const all = await Promise.all(
    [1, 2, 3].map((ranks) =>
      runWorld(ranks, async (group) => {
        const table = tf.tidy(() => tf.variable(tf.randomNormal([8, 4], 0, 1, 'float32', 7)));
        const embed = {
          name: 'embed',
          outputShape: [8],
          size: 32,
          build: () => [table],
          apply: (x: tf.Tensor) => tf.matMul(x, table, false, true),
          dispose: () => table.dispose(),
        };
        const [, ...rest] = sequentialChain();
        const stages = ranks === 1 ? [6, 0] : ranks === 2 ? [2, 3, 1] : [1, 2, 3, 0];
        const stage = await PipelineStage.create({ layers: [embed, ...rest], ring: true }, group, {
          optimizer,
          stages,
        });
        if (group.rank !== 0) table.dispose();
        const loss = (hidden: tf.Tensor, targets: tf.Tensor): tf.Scalar =>
          tf
            .matMul(hidden as tf.Tensor2D, table)
            .sub(targets)
            .square()
            .mean()
            .asScalar();
        const trainer = new Schedule1F1B(stage, { microBatches: 4, loss });
        const losses: number[] = [];
        for (let step = 0; step < 10; step++) {
          const inputs = tf.randomNormal([8, 4], 0, 1, 'float32', step + 1);
          losses.push((await trainer.step({ inputs, targets: inputs })).loss);
          await stage.step();
          inputs.dispose();
        }
        stage.dispose();
        return losses;
      }),
    ),
  );
  for (const losses of all.flat()) expect(largestRelativeDifference(losses, all[0]![0]!)).toBeLessThanOrEqual(1e-5);
  expect(all[0]![0]!.at(-1)).toBeLessThan(all[0]![0]![0]!);
});
