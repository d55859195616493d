/** Layers as the jobs apply them, compared with TensorFlow.js's own layers. */
import * as tf from '@tensorflow/tfjs';
import { afterEach, expect, test } from 'vitest';
import { applyLayerForTraining } from '../../../src/jobs/models/applyLayer.ts';
import { chooseWebGpuKernels } from '../../../src/gpu/kernels/index.ts';
import { createRng } from '../../../src/util/rng.ts';
import { expectEqualsCpu, uniform, type Op } from './compare.ts';
import { dispatchesOf } from './dispatches.ts';

afterEach(() => {
  chooseWebGpuKernels('own');
});

type Apply = (layer: tf.layers.Layer, x: tf.Tensor) => tf.Tensor;

const own: Apply = (layer, x) => applyLayerForTraining(layer, [x]);
const stock: Apply = (layer, x) => layer.apply(x) as tf.Tensor;

/** Returns `apply` as an op of x and the layer's weights, which replace those of the layer. */
function opOf(layer: tf.layers.Layer, apply: Apply): Op {
  return (x, ...weights) => {
    const variables = layer.weights.map((weight) => weight.read());
    for (const [i, weight] of layer.weights.entries()) weight.read = () => weights[i] as tf.Variable;
    const y = apply(layer, x);
    for (const [i, weight] of layer.weights.entries()) weight.read = () => variables[i]!;
    return y;
  };
}

const { dense, layerNormalization } = tf.layers;
const units = 6;

test.each<[name: string, layer: tf.layers.Layer, shape: number[], isOwn: boolean]>([
  ['a dense layer', dense({ units }), [5, 7], true],
  ['a dense layer with relu and without bias', dense({ units, activation: 'relu', useBias: false }), [5, 7], true],
  ['a dense layer with gelu', dense({ units, activation: 'gelu' }), [5, 7], true],
  ['a dense layer with gelu_new', dense({ units, activation: 'gelu_new' }), [5, 7], true],
  ['a dense layer with tanh', dense({ units, activation: 'tanh' }), [5, 7], false],
  ['layer normalization', layerNormalization({}), [5, 13], true],
  ['layer normalization of pictures', layerNormalization({ epsilon: 0.1 }), [2, 3, 4, 8], true],
  ['layer normalization over another axis', layerNormalization({ axis: 1 }), [3, 5, 7], false],
])('%s has the values and gradients of the stock layer', async (_, layer, shape, isOwn) => {
  layer.build([null, ...shape.slice(1)]);
  const variables = layer.weights.map((weight) => weight.read());
  const rng = createRng(1);
  const inputs = [shape, ...variables.map((variable) => variable.shape)].map((each) => uniform(rng, ...each));
  await expectEqualsCpu((...tensors) => opOf(layer, tf.getBackend() === 'cpu' ? stock : own)(...tensors), inputs);
  const x = tf.ones(shape);
  const dispatches = dispatchesOf(() => own(layer, x));
  if (isOwn) expect(dispatches).toBe(1);
  else expect(dispatches).toBeGreaterThan(1);
  tf.dispose([x, variables]);
});

/** TensorFlow.js has no gradient of these layers: batch normalization saves all its inputs. */
test.each([
  ['scale', { scale: false }],
  ['offset', { center: false }],
  ['weights', { scale: false, center: false }],
])('layer normalization without %s can be differentiated with own and stock kernels', async (_, args) => {
  const { values } = uniform(createRng(2), 4, 6);
  const input = tf.tensor2d(values, [4, 6]);
  const dy = tf.tensor2d(
    values.map((value) => value ** 2),
    [4, 6],
  );
  const full = layerNormalization({});
  const layer = layerNormalization(args);
  for (const each of [full, layer]) each.build([null, 6]);
  const resultsOf = async (each: tf.layers.Layer, apply: Apply): Promise<number[]> => {
    const { value, grad } = tf.valueAndGrad((x) => apply(each, x))(input, dy);
    const results = [...(await value.data()), ...(await grad.data())];
    tf.dispose([value, grad]);
    return results;
  };
  const expected = await resultsOf(full, stock);
  for (const kernels of ['own', 'stock'] as const) {
    chooseWebGpuKernels(kernels);
    for (const [i, value] of (await resultsOf(layer, own)).entries()) expect(value).toBeCloseTo(expected[i]!, 4);
  }
  tf.dispose([input, dy, ...[full, layer].flatMap(({ weights }) => weights.map((weight) => weight.read()))]);
});
