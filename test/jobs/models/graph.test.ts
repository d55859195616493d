/**
 * Tests of models with branches, in the formats of TensorFlow.js, Keras 2 and Keras 3. They run on
 * TensorFlow.js's CPU backend.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs';
import * as v from 'valibot';
import { describe, expect, test } from 'vitest';
import { buildJobModel, type JobModel } from '../../../src/jobs/index.ts';
import { readMatchedWeights } from '../../../src/formats/weights/matchWeights.ts';
import { openWeights } from '../../../src/formats/weights/weightsFile.ts';
import { crossEntropySum } from '../../../src/gpu/kernels/crossEntropy.ts';
import { parseJob, type JobSpec } from '../../../src/spec/job.ts';
import { readJobFile, writeJobFile } from '../../../src/spec/jobFile.ts';
import { layerRowsOf, ModelTopology } from '../../../src/spec/topology.ts';
import { CUSTOM_MODEL_JOB } from './customModelJob.ts';
import { loadLayersModel } from '../loadLayersModel.ts';

const SHAPE = { inputShape: [28, 28, 1], classes: 10 } as const;

const fixture = (name: string): Buffer => readFileSync(path.join(import.meta.dirname, '../../formats/weights', name));
const topologyOf = (model: unknown): ModelTopology => v.parse(ModelTopology, model);

/** Returns a model with two branches that are added, concatenated and multiplied. */
function branching(): tf.LayersModel {
  const input = tf.input({ shape: [28, 28, 1] });
  const pooled = tf.layers.averagePooling2d({ poolSize: 4 }).apply(input) as tf.SymbolicTensor;
  const conv = tf.layers.conv2d({ filters: 3, kernelSize: 3, padding: 'same', activation: 'relu' });
  const a = conv.apply(pooled) as tf.SymbolicTensor;
  const b = tf.layers.conv2d({ filters: 3, kernelSize: 1 }).apply(pooled) as tf.SymbolicTensor;
  const sum = tf.layers.add().apply([a, b]) as tf.SymbolicTensor;
  const beside = tf.layers.concatenate().apply([sum, b, pooled]) as tf.SymbolicTensor;
  const flat = tf.layers.flatten().apply(beside) as tf.SymbolicTensor;
  const gate = tf.layers.dense({ units: 6, activation: 'sigmoid' }).apply(flat) as tf.SymbolicTensor;
  const hidden = tf.layers.dense({ units: 6 }).apply(flat) as tf.SymbolicTensor;
  const gated = tf.layers.multiply().apply([gate, hidden]) as tf.SymbolicTensor;
  return tf.model({ inputs: input, outputs: tf.layers.dense({ units: 10 }).apply(gated) as tf.SymbolicTensor });
}

const jobOf = (model: unknown): JobSpec => parseJob({ model });

/** Copies weights by name. */
function copyWeights(from: tf.LayersModel, to: JobModel): void {
  const values = new Map(from.weights.map((weight) => [weight.originalName, weight.read()]));
  for (const [i, variable] of to.variables.entries()) variable.assign(values.get(to.names[i]!)!);
}

test('a graph from TensorFlow.js has the outputs and shapes that it has in TensorFlow.js', () => {
  const theirs = branching();
  const job = jobOf(theirs.toJSON(null, false));
  const ours = buildJobModel(job, SHAPE);
  copyWeights(theirs, ours);
  const x = tf.randomUniform([3, 28, 28, 1], 0, 1, 'float32', 7);
  const off = tf.max(tf.abs(tf.sub(theirs.predict(x) as tf.Tensor, ours.logits(x)))).dataSync()[0];
  expect(off).toBe(0);
  const rows = layerRowsOf(job.model as ModelTopology).map(({ name, shape, parameters }) => [
    name,
    { shape, parameters },
  ]);
  expect(Object.fromEntries(rows)).toEqual(
    Object.fromEntries(
      theirs.layers.map((layer) => [
        layer.name,
        { shape: (layer.outputShape as number[]).slice(1), parameters: layer.countParams() },
      ]),
    ),
  );
  ours.dispose();
});

test('a graph does not change when its job is written to a file and read again', () => {
  for (const model of [
    branching().toJSON(null, false),
    JSON.parse(fixture('functional.json').toString()),
    CUSTOM_MODEL_JOB.model,
  ]) {
    const once = topologyOf(model);
    expect(JSON.stringify(topologyOf(structuredClone(once)))).toBe(JSON.stringify(once));
    const job = jobOf(once);
    expect(readJobFile('job.json', writeJobFile(job)).job).toEqual(job);
  }
});

test('a graph from Keras 3 has the outputs that it has in Keras', async () => {
  // These outputs were computed by Keras 3.15.1 on JAX.
  const expected = [
    [0.087437, 0.131223, 0.100559, 0.105826, 0.10997, 0.097123, 0.091027, 0.07207, 0.107664, 0.097102],
    [0.087334, 0.131083, 0.100704, 0.105828, 0.109949, 0.09702, 0.091155, 0.071995, 0.107776, 0.097156],
  ];
  const job = jobOf(JSON.parse(fixture('functional.json').toString()));
  const model = buildJobModel(job, SHAPE);
  const weights = await openWeights(
    'functional.weights.h5',
    new Blob([new Uint8Array(fixture('functional.weights.h5'))]),
  );
  const shapes = model.variables.map(({ shape }) => shape);
  const values = readMatchedWeights(weights, { names: model.names, shapes, topology: model.topology });
  for (const variable of model.variables) {
    variable.assign(tf.tensor((await values.next()).value as Float32Array, variable.shape));
  }
  const pixels = Float32Array.from({ length: 2 * 784 }, (_, i) => ((i * 37) % 101) / 100);
  const answers = tf.softmax(model.logits(tf.tensor(pixels, [2, 28, 28, 1]))).arraySync();
  for (const [row, numbers] of expected.entries()) {
    for (const [k, value] of numbers.entries()) expect(answers[row]![k]).toBeCloseTo(value, 5);
  }
  model.dispose();
});

test('a saved model has the same outputs when TensorFlow.js loads it', async () => {
  const model = buildJobModel(jobOf(CUSTOM_MODEL_JOB.model), SHAPE);
  const loaded = await loadLayersModel(model);
  const x = tf.randomUniform([2, 28, 28, 1], 0, 1, 'float32', 3);
  const off = tf.max(tf.abs(tf.sub(loaded.predict(x) as tf.Tensor, tf.softmax(model.logits(x))))).dataSync()[0];
  expect(off).toBeLessThan(1e-6);
  model.dispose();
});

test("each weight's gradient equals its finite difference", () => {
  const model = buildJobModel(jobOf(branching().toJSON(null, false)), SHAPE);
  const x = tf.randomUniform([2, 28, 28, 1], 0, 1, 'float32', 5);
  const loss = () => crossEntropySum(model.logits(x), tf.tensor1d([1, 7], 'int32'), tf.ones([2]));
  const { grads } = tf.variableGrads(loss, [...model.variables]);
  for (const variable of model.variables) {
    const gradient = Array.from(grads[variable.name]!.dataSync());
    const at = gradient.reduce((best, value, i) => (Math.abs(value) > Math.abs(gradient[best]!) ? i : best), 0);
    const before = variable.dataSync().slice();
    const moved = (by: number): number => {
      const values = before.slice();
      values[at]! += by;
      tf.tidy(() => variable.assign(tf.tensor(values, variable.shape)));
      return tf.tidy(() => loss().dataSync()[0]!);
    };
    const slope = (moved(1e-2) - moved(-1e-2)) / 2e-2;
    moved(0);
    expect(Math.abs(gradient[at]! - slope)).toBeLessThan(0.02 * Math.abs(slope) + 1e-3);
  }
  model.dispose();
});

interface Described {
  class_name: string;
  config: {
    layers: { class_name: string; name: string; config: Record<string, unknown>; inbound_nodes: unknown[] }[];
    input_layers: unknown;
    output_layers: unknown;
  };
}

const call = (...names: string[]): unknown[] => [names.map((name) => [name, 0, 0, {}])];

describe('parseJob rejects a topology with the path of the problem:', () => {
  test.each<[string, (config: Described['config']) => void, string]>([
    [
      'a source that does not exist',
      ({ layers }) => (layers[4]!.inbound_nodes = call('conv', 'gone')),
      'layers[4].inbound_nodes: there is no layer "gone".',
    ],
    [
      'a source that comes later in the list',
      ({ layers }) => (layers[4]!.inbound_nodes = call('conv', 'flat')),
      'layers[4].inbound_nodes: "flat" comes later: put it before this layer.',
    ],
    [
      'a layer without a source',
      ({ layers }) => (layers[2]!.inbound_nodes = []),
      'layers[2].inbound_nodes: it must list the layers that this layer reads.',
    ],
    [
      'a layer that is called twice',
      ({ layers }) => layers[2]!.inbound_nodes.push(...call('small')),
      'layers[2].inbound_nodes: layers that are called several times',
    ],
    [
      'the second call of a layer',
      ({ layers }) => (layers[2]!.inbound_nodes = [[['small', 1, 0, {}]]]),
      'layers[2].inbound_nodes: layers that are called several times',
    ],
    [
      'a call with arguments',
      ({ layers }) => (layers[2]!.inbound_nodes = [[['small', 0, 0, { training: true }]]]),
      'layers[2].inbound_nodes: arguments of calls are not supported',
    ],
    [
      'an entry that is not a call',
      ({ layers }) => (layers[2]!.inbound_nodes = ['small']),
      'layers[2].inbound_nodes: it must list the layers',
    ],
    [
      'an output that no layer reads',
      ({ layers }) => (layers[13]!.inbound_nodes = call('hidden', 'hidden')),
      'layers[12]: no layer reads its output: remove it.',
    ],
    [
      'two inputs',
      (config) =>
        (config.input_layers = [
          ['pixels', 0, 0],
          ['small', 0, 0],
        ]),
      'input_layers: a model must have exactly one input.',
    ],
    [
      'an input that is not the first layer',
      (config) => (config.input_layers = [['small', 0, 0]]),
      'input_layers: the input must be the first layer, "pixels".',
    ],
    [
      'two outputs',
      (config) =>
        (config.output_layers = [
          ['gated', 0, 0],
          ['answer', 0, 0],
        ]),
      'output_layers: a model must have exactly one output.',
    ],
    [
      'an output that is not the last layer',
      (config) => (config.output_layers = ['gated', 0, 0]),
      'output_layers: the output must be the last layer, "answer".',
    ],
    [
      'no output',
      (config) => delete (config as Partial<Described['config']>).output_layers,
      'output_layers: the field "output_layers" is missing.',
    ],
    [
      'shapes that cannot be added',
      ({ layers }) => (layers[4]!.inbound_nodes = call('conv', 'depthwise', 'small')),
      'layers[4]: the inputs must have the same shape, but they are [7, 7, 4] and [7, 7, 4] and [7, 7, 1].',
    ],
    [
      'shapes that cannot be concatenated',
      ({ layers }) => (layers[8]!.inbound_nodes = call('pooled', 'normalized', 'sum')),
      'layers[8]: concatenated inputs may only differ in the last dimension',
    ],
    [
      'several inputs of a layer that has one',
      ({ layers }) => (layers[6]!.inbound_nodes = call('padded', 'sum')),
      'layers[6]: the layer has one input, but gets 2',
    ],
    [
      'one input of a layer that needs several',
      ({ layers }) => (layers[4]!.inbound_nodes = call('depthwise')),
      'layers[4]: the layer needs two or more inputs, but gets one.',
    ],
    [
      'a softmax before the last layer',
      ({ layers }) => (layers[12]!.config['activation'] = 'softmax'),
      'layers[12]: only the last layer may be a softmax',
    ],
    [
      'no input layer',
      ({ layers }) => layers.shift(),
      'layers[0].config: the first layer must state the shape of a sample',
    ],
    [
      'a layer that contains code',
      ({ layers }) => (layers[5]!.class_name = 'Lambda'),
      'layers[5].class_name: "Lambda" is not a supported layer: a job is data',
    ],
  ])('%s', (_, spoil, sentence) => {
    const model = structuredClone(CUSTOM_MODEL_JOB.model) as unknown as Described;
    spoil(model.config);
    expect(() => jobOf(model)).toThrow(`model.config.${sentence}`);
  });
});
