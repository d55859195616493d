import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { convertSyncBatchNorm, SyncBatchNormalization } from '../../../src/parallel/backward/syncBatchNorm.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { build, valuesOf, samples, expectClose } from './passes.ts';

const { batchNormalization, dense } = tf.layers;

const syncLayersIn = (model: tf.LayersModel): number =>
  model.layers.filter((layer) => layer instanceof SyncBatchNormalization).length;

describe('convertSyncBatchNorm', () => {
  test('returns a model in which every BatchNormalization is replaced; the given model is unchanged', () => {
    const model = build('four dimensions');
    for (const [i, weight] of model.weights.entries()) {
      weight.write(tf.randomUniform(weight.shape as number[], 0.5, 1.5, 'float32', i + 1));
    }
    const { inputs } = samples(model, 3);
    const before = valuesOf([model.predict(inputs) as tf.Tensor])[0]!;
    const converted = convertSyncBatchNorm(model);
    expect([syncLayersIn(converted), syncLayersIn(model)]).toEqual([2, 0]);
    expect(converted).toBeInstanceOf(tf.Sequential);
    expect(converted.layers.map(({ name }) => name)).toEqual(model.layers.map(({ name }) => name));
    expect(valuesOf(converted.getWeights())).toEqual(valuesOf(model.getWeights()));
    expectClose(valuesOf([converted.predict(inputs) as tf.Tensor])[0]!, before, 'outputs');
    expect(valuesOf([model.predict(inputs) as tf.Tensor])[0]!).toEqual(before);
  });

  test('converts nested models, and keeps frozen layers frozen', () => {
    const inner = tf.sequential({ layers: [dense({ units: 3, inputShape: [3] }), batchNormalization()] });
    inner.trainable = false;
    const model = tf.sequential({
      layers: [dense({ units: 3, inputShape: [3], trainable: false }), inner, batchNormalization()],
    });
    const converted = convertSyncBatchNorm(model);
    expect(syncLayersIn(converted.layers[1] as tf.LayersModel)).toBe(1);
    expect(converted.trainableWeights.map(({ originalName }) => originalName)).toEqual(
      model.trainableWeights.map(({ originalName }) => originalName),
    );
    expect(valuesOf(converted.getWeights())).toEqual(valuesOf(model.getWeights()));
  });

  test('rejects layers that TensorFlow.js cannot rebuild, with advice', () => {
    class Unregistered extends tf.layers.Layer {
      static className = 'Unregistered';
    }
    const model = tf.sequential({ layers: [dense({ units: 3, inputShape: [3] }), new Unregistered()] });
    expect(() => convertSyncBatchNorm(model)).toThrow(UsageError);
    expect(() => convertSyncBatchNorm(model)).toThrow(/Register custom layers/);
  });
});
