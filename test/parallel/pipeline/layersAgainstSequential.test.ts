/** Masks, frozen layers, penalties and nested models in a pipeline, as in `tf.Sequential`. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { MismatchError, UsageError } from '../../../src/util/errors.ts';
import { ScheduleGPipe } from '../../../src/parallel/pipeline/pipelineSchedule.ts';
import { PipelineStage } from '../../../src/parallel/pipeline/pipelineStage.ts';
import { sequentialLayers } from '../../../src/parallel/pipeline/sequentialLayers.ts';
import { initDeviceMesh } from '../../../src/parallel/groups/deviceMesh.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { dense, expectSame, SAMPLES, seeded, trainInPipeline, type Layer, type Model } from './againstSequential.ts';

const ids = () => tf.tensor2d([1, 2, 0, 0, 3, 1, 2, 0, 2, 0, 0, 0, 1, 2, 3, 3], [SAMPLES, 4], 'int32');
const embedding = () => tf.layers.embedding({ inputDim: 4, outputDim: 3, inputLength: 4, maskZero: true });
const lstm = (config = {}) => tf.layers.lstm({ units: 3, kernelInitializer: seeded(1), ...config });

const MASKED: Record<string, Model> = {
  'an embedding before a recurrent layer': () => [embedding(), lstm(), dense(2)],
  'several recurrent layers': () => [
    embedding(),
    lstm({ returnSequences: true }),
    tf.layers.gru({ units: 2 }),
    dense(2),
  ],
  'layers that pass masks on': () => [
    embedding(),
    tf.layers.activation({ activation: 'tanh' }),
    tf.layers.layerNormalization(),
    tf.layers.timeDistributed({ layer: dense(2) }),
    lstm(),
    dense(2),
  ],
  'a bidirectional layer': () => [
    embedding(),
    tf.layers.bidirectional({ layer: lstm({ returnSequences: true }), mergeMode: 'sum' }),
    tf.layers.simpleRNN({ units: 3 }),
    dense(2),
  ],
  'a layer without masks between': () => [
    embedding(),
    tf.layers.conv1d({ filters: 3, kernelSize: 1, activation: 'tanh' }),
    lstm(),
    dense(2),
  ],
  'a masking layer': () => [
    tf.layers.embedding({ inputDim: 4, outputDim: 3, inputLength: 4, embeddingsInitializer: 'ones', trainable: false }),
    tf.layers.masking({ maskValue: 1 }),
    lstm(),
    dense(2),
  ],
  'a nested model': () => [
    tf.sequential({ layers: [embedding(), lstm({ returnSequences: true })] }),
    tf.layers.flatten(),
    dense(2),
  ],
};

describe.each(Object.entries(MASKED))('masks of %s', (_, make) => {
  test.each([
    ['travel between ranks', {}],
    ['stay on one rank', { stages: (layers: number) => [layers] }],
    ['are those of the forward pass when layers are computed again', { recompute: true }],
  ])('%s', async (_name, options) => {
    await expectSame(make, { ...options, inputs: ids() });
  });
});

const chain =
  (first: object, second: object = {}): Model =>
  () => [
    dense(3, { inputShape: [3], activation: 'tanh', ...first }),
    dense(4, { ...second, name: 'second' }),
    dense(2),
  ];

test.each([
  ['layers at the start', chain({ trainable: false })],
  ['layers behind others', chain({}, { trainable: false })],
  [
    'a recurrent layer',
    () => [lstm({ inputShape: [4, 3], trainable: false, returnSequences: true }), lstm(), dense(2)],
  ],
  [
    'a layer in a wrapper',
    () => [
      tf.layers.bidirectional({ layer: lstm({ trainable: false }), mergeMode: 'ave', inputShape: [4, 3] }),
      dense(2),
    ],
  ],
  [
    'a nested model',
    () => {
      const base = tf.sequential({ layers: [dense(3, { inputShape: [4] }), tf.layers.batchNormalization()] });
      base.trainable = false;
      return [dense(4, { inputShape: [3] }), base, dense(2)];
    },
  ],
  [
    'layers of a nested model',
    () => [tf.sequential({ layers: [dense(3, { inputShape: [3], trainable: false }), dense(3)] }), dense(2)],
  ],
] as [string, Model][])('a pipeline keeps frozen: %s', async (_, make) => {
  const { losses } = await expectSame(make, { microBatches: 1 });
  expect(losses[1]).not.toBe(losses[0]);
});

const recurrent: Model = () => [lstm({ inputShape: [4, 3] }), dense(2)];

test('a recurrent layer stays frozen if it was frozen after it was built', async () => {
  await expectSame(recurrent, { prepare: ([first]) => void (first!.trainable = false) });
});

test('weights that are passed to a layer are its first weights', async () => {
  const weights = [tf.ones([3, 3]).mul(0.5), tf.ones([3]).mul(0.25)];
  const { weights: trained } = await trainInPipeline(chain({ weights, trainable: false }), null, {});
  expect(trained[0]).toEqual([...Array.from({ length: 9 }, () => 0.5), 0.25, 0.25, 0.25]);
});

const fixedBatch: Model = () => [
  tf.layers.timeDistributed({ layer: dense(2), batchInputShape: [SAMPLES, 4, 3] }),
  lstm(),
  dense(2),
];

test('layers with a fixed batch size can be trained with micro-batches', async () => {
  const { losses } = await trainInPipeline(fixedBatch, null, { microBatches: 2 });
  expect(losses[1]).toBeLessThan(losses[0]!);
});

const nested: Model = () => [
  tf.layers.bidirectional({ layer: lstm(), mergeMode: 'concat', inputShape: [4, 3] }),
  tf.sequential({ layers: [dense(3, { inputShape: [6] }), tf.layers.batchNormalization()] }),
  dense(2),
];

test('the size of a layer is the number of its weights, even for wrappers and nested models', () => {
  const built = tf.sequential({ layers: nested() }).layers.map((layer) => layer.countParams());
  expect(sequentialLayers(nested()).map(({ size }) => size)).toEqual(built);
});

type Stages = (group: Parameters<typeof PipelineStage.create>[1], layers: Layer[]) => Promise<unknown>;
const loss = (output: tf.Tensor, target: tf.Tensor): tf.Scalar => output.sub(target).square().mean().asScalar();
const batch = (samples = SAMPLES) => ({ inputs: tf.ones([samples, 3]), targets: tf.ones([samples, 2]) });

/** What each rank of a pipeline of three rejects with. */
async function rejections(main: Stages): Promise<unknown[]> {
  const all = await runWorld(3, (group) =>
    main(group, chain({ trainable: false }, { trainable: false })()).then(
      () => null,
      (error: unknown) => error,
    ),
  );
  return all.map((error) => (error instanceof UsageError ? error.message : error));
}

test('all ranks reject a layer that is unfrozen after the stage was created', async () => {
  const messages = await rejections(async (group, layers) => {
    const stage = await PipelineStage.create(layers, group, { stages: [1, 1, 1], optimizer: tf.train.sgd(0.1) });
    layers[1]!.trainable = true;
    await new ScheduleGPipe(stage, { microBatches: 1, loss }).step(batch());
  });
  expect(messages).toEqual(
    Array.from({ length: 3 }, () => expect.stringMatching(/^The layer "second" was frozen when/)),
  );
});

test('all ranks reject a model whose layers are all frozen', async () => {
  const messages = await rejections(async (group, layers) => {
    for (const layer of layers) layer.trainable = false;
    const stage = await PipelineStage.create(layers, group, { stages: [1, 1, 1], optimizer: tf.train.sgd(0.1) });
    await new ScheduleGPipe(stage, { microBatches: 1, loss }).step(batch());
  });
  expect(messages).toEqual(
    Array.from({ length: 3 }, () => expect.stringMatching(/^All layers with weights are frozen/)),
  );
});

/** Trains two replicas of two stages with these numbers of samples. */
async function inReplicas(
  counts: readonly number[],
  make: Model,
  prepare?: (layers: Layer[], replica: number) => void,
) {
  const x = tf.randomNormal([8, 3], 0, 1, 'float32', 1);
  const y = tf.randomNormal([8, 2], 0, 1, 'float32', 2);
  return runWorld(4, async (world) => {
    const mesh = await initDeviceMesh(world, { data: 2, pipeline: 2 });
    const [group, dataGroup] = [mesh.getGroup('pipeline'), mesh.getGroup('data')];
    const layers = make();
    const optimizer = tf.train.sgd(0.1);
    const stage = await PipelineStage.create(layers, group, { stages: [1, layers.length - 1], optimizer, dataGroup });
    prepare?.(layers, dataGroup.rank);
    const count = counts[dataGroup.rank]!;
    const start = dataGroup.rank === 0 ? 0 : counts[0]!;
    const own = { inputs: x.slice([start, 0], [count, 3]), targets: y.slice([start, 0], [count, 2]) };
    try {
      const { loss: value } = await new ScheduleGPipe(stage, { microBatches: 3, loss }).step(own);
      await stage.step();
      return {
        value,
        hash: await stage.hash(),
        weights: stage.layers.map((i) => Array.from(layers[i]!.getWeights().flatMap((w) => [...w.dataSync()]))),
      };
    } catch (error) {
      return { error };
    }
  });
}

test.each([[[5, 2]], [[2, 5]], [[7, 0]], [[0, 7]]])(
  'replicas with %j samples and three micro-batches learn what one replica learns from all samples',
  async (counts) => {
    const make = chain({ kernelRegularizer: 'l1l2' }, { kernelRegularizer: 'l1l2', biasRegularizer: 'l1l2' });
    const all = await inReplicas(counts, make);
    const [alone] = await inReplicas([7, 0], make);
    for (const { value } of all) expect(value).toBeCloseTo(alone!.value!, 5);
    expect(new Set(all.map(({ value }) => value)).size).toBe(1);
    expect([all[2]!.hash, all[3]!.hash]).toEqual([all[0]!.hash, all[1]!.hash]);
    for (const [i, weight] of all[0]!.weights!.flat().entries()) {
      expect(weight).toBeCloseTo(alone!.weights!.flat()[i]!, 5);
    }
  },
);

test('all ranks reject with the same error if no replica has samples', async () => {
  const all = await inReplicas([0, 0], chain({}));
  const message = expect.stringMatching(/^No replica has samples/) as string;
  expect(all).toEqual(all.map(() => ({ error: expect.objectContaining({ name: 'UsageError', message }) as Error })));
});

test('replicas with different frozen layers are rejected', async () => {
  const all = await inReplicas([4, 4], chain({}), ([first], replica) => void (first!.trainable = replica === 0));
  for (const { error } of all) expect(error).toBeInstanceOf(Error);
  expect(all[0]!.error).toBeInstanceOf(MismatchError);
});

const normalized: Model = () => [
  dense(3, { inputShape: [3] }),
  tf.layers.batchNormalization({ momentum: 0.5 }),
  dense(2),
];

test('averages of batch normalization come from the replica that has samples', async () => {
  const all = await inReplicas([0, 7], normalized);
  const [moving] = all[1]!.weights!.map((layer) => layer.slice(6, 9));
  expect(all[1]!.hash).toBe(all[3]!.hash);
  expect(Math.max(...moving!.map(Math.abs))).toBeGreaterThan(0.01);
});
