import * as tf from '@tensorflow/tfjs';
import * as v from 'valibot';
import { expect, test } from 'vitest';
import { buildJobModel } from '../../../src/jobs/index.ts';
import { crossEntropySum } from '../../../src/gpu/kernels/crossEntropy.ts';
import { parseJob, type JobSpec } from '../../../src/spec/job.ts';
import { layerRowsOf, ModelTopology } from '../../../src/spec/topology.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { hashOfArrays } from '../../../src/util/hash.ts';
import { loadLayersModel } from '../loadLayersModel.ts';

const SHAPE = { inputShape: [28, 28, 1], classes: 10 } as const;

/** Returns a model that has a layer of every supported class. */
function everyLayer(): tf.Sequential {
  return tf.sequential({
    layers: [
      tf.layers.inputLayer({ inputShape: [28, 28, 1], name: 'input' }),
      tf.layers.zeroPadding2d({
        padding: [
          [1, 0],
          [2, 1],
        ] as never,
      }),
      tf.layers.conv2d({ filters: 3, kernelSize: [3, 5], strides: 2, padding: 'same', activation: 'swish' }),
      tf.layers.layerNormalization(),
      tf.layers.depthwiseConv2d({ kernelSize: 3, depthMultiplier: 2, activation: 'gelu' }),
      tf.layers.reLU({ maxValue: 6 }),
      tf.layers.maxPooling2d({ poolSize: [2, 3], strides: [2, 2], padding: 'same' }),
      tf.layers.averagePooling2d({ poolSize: 2, strides: 1 }),
      tf.layers.dropout({ rate: 0.25 }),
      tf.layers.reshape({ targetShape: [6, 9, 4] }),
      tf.layers.dense({ units: 4, activation: 'selu' }),
      tf.layers.conv2d({ filters: 4, kernelSize: 1, activation: 'softplus', useBias: false }),
      tf.layers.globalAveragePooling2d({}),
      tf.layers.dense({ units: 12, activation: 'elu' }),
      tf.layers.reshape({ targetShape: [2, 3, 2] }),
      tf.layers.flatten(),
      tf.layers.reshape({ targetShape: [2, 3, 2] }),
      tf.layers.globalMaxPooling2d({}),
      tf.layers.activation({ activation: 'tanh' }),
      tf.layers.dense({ units: 10 }),
      tf.layers.softmax(),
    ],
  });
}

function topologyOf(model: tf.Sequential): ModelTopology {
  return v.parse(ModelTopology, model.toJSON(null, false));
}

function jobWith(model: unknown, fields: Record<string, unknown> = {}): JobSpec {
  return parseJob({ model, ...fields });
}

/** Returns a digest of the initial weights of a new model. */
function startOf(seed: number): string {
  const model = buildJobModel(jobWith(everyLayer().toJSON(null, false), { seed }), SHAPE);
  const values = model.variables.map((variable) => variable.dataSync().slice() as Float32Array<ArrayBuffer>);
  model.dispose();
  return hashOfArrays(values);
}

/** Returns a job whose samples are rows of six numbers. */
function rowJob(units: number, last: object = {}): JobSpec {
  const layers = [{ class_name: 'Dense', config: { units, input_shape: [6], ...last } }];
  return jobWith({ class_name: 'Sequential', config: { layers } }, { job: 'table', data: { kind: 'files' } });
}

test('each layer has the output shape and the number of weights that it has in TensorFlow.js', () => {
  const model = everyLayer();
  expect(layerRowsOf(topologyOf(model)).map(({ shape, parameters }) => ({ shape, parameters }))).toEqual(
    model.layers.map((layer) => ({ shape: layer.outputShape.slice(1), parameters: layer.countParams() })),
  );
});

test('a topology does not change when it is parsed a second time', () => {
  const once = topologyOf(everyLayer());
  expect(JSON.stringify(v.parse(ModelTopology, structuredClone(once)))).toBe(JSON.stringify(once));
});

test('every weight of every layer has a gradient', () => {
  const model = buildJobModel(jobWith(everyLayer().toJSON(null, false)), SHAPE);
  const gradients = tf.tidy(() => {
    const x = tf.randomUniform([3, 28, 28, 1], 0, 1, 'float32', 7);
    const masks = model.dropout.map(({ shape }) => tf.ones([3, ...shape]));
    const loss = () => crossEntropySum(model.logits(x, masks), tf.tensor1d([1, 2, 3], 'int32'), tf.ones([3]));
    const { grads } = tf.variableGrads(loss, [...model.variables]);
    return Object.values(grads).map((grad) => [...grad.dataSync()]);
  });
  expect(gradients.length).toBe(model.variables.length);
  for (const gradient of gradients) expect(gradient.some((value) => value !== 0 && Number.isFinite(value))).toBe(true);
  model.dispose();
});

test('the initial weights of a custom model are equal for equal seeds, and differ for different seeds', () => {
  expect(startOf(1)).toBe(startOf(1));
  expect(startOf(1)).not.toBe(startOf(2));
});

test('a softmax at the end of a custom model is saved with the model, but not applied to the logits', async () => {
  for (const layers of [
    [tf.layers.flatten({ inputShape: [28, 28, 1] }), tf.layers.dense({ units: 10, activation: 'softmax' })],
    [tf.layers.flatten({ inputShape: [28, 28, 1] }), tf.layers.dense({ units: 10 }), tf.layers.softmax()],
  ]) {
    const model = buildJobModel(jobWith(tf.sequential({ layers }).toJSON(null, false)), SHAPE);
    const loaded = await loadLayersModel(model);
    const x = tf.randomUniform([2, 28, 28, 1], 0, 1, 'float32', 3);
    const [theirs, ours] = [loaded.predict(x) as tf.Tensor, tf.softmax(model.logits(x))];
    const off = tf.max(tf.abs(tf.sub(theirs, ours))).dataSync()[0];
    expect(off).toBeLessThan(1e-6);
    expect(tf.sum(model.logits(x), 1).dataSync()[0]).not.toBeCloseTo(1);
    model.dispose();
  }
});

test('a custom model may have rows of numbers as its samples', () => {
  const model = buildJobModel(rowJob(2), { inputShape: [1, 1, 6], classes: 2 });
  expect(model.logits(tf.ones([4, 1, 1, 6])).shape).toEqual([4, 2]);
  expect(model.names).toEqual(['dense1/kernel', 'dense1/bias']);
  model.dispose();
});

test('a custom model that does not fit the data is rejected, with both shapes', () => {
  expect(() => buildJobModel(rowJob(3), { inputShape: [1, 1, 5], classes: 3 })).toThrow(
    'model.config.layers[0].config.batch_input_shape: the model needs samples of [6], but the samples are [1, 1, 5], or [5] in one row.',
  );
  expect(() => buildJobModel(rowJob(3), { inputShape: [1, 1, 6], classes: 4 })).toThrow(
    'model.config.layers[0]: the model outputs [3], but the samples have 4 classes: [4].',
  );
  expect(() =>
    buildJobModel(rowJob(1, { activation: 'softmax' }), { inputShape: [1, 1, 6], classes: 1, labelUnit: 2 }),
  ).toThrow(UsageError);
});
