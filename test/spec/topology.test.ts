import { expect, test } from 'vitest';
import { DEFAULT_JOB, parseJob } from '../../src/spec/job.ts';
import { readJobFile, writeJobFile } from '../../src/spec/jobFile.ts';
import { layerRowsOf } from '../../src/spec/topology.ts';

/**
 * Keras 3.11's output for `Sequential([Input((28, 28, 1)), Conv2D(4, 3, activation='relu'),
 * Flatten(), Dense(10)]).to_json()`.
 */
const KERAS_3 = {
  module: 'keras',
  class_name: 'Sequential',
  config: {
    name: 'sequential',
    trainable: true,
    dtype: { module: 'keras', class_name: 'DTypePolicy', config: { name: 'float32' }, registered_name: null },
    layers: [
      {
        module: 'keras.layers',
        class_name: 'InputLayer',
        config: { batch_shape: [null, 28, 28, 1], dtype: 'float32', sparse: false, ragged: false, name: 'input_layer' },
        registered_name: null,
      },
      {
        module: 'keras.layers',
        class_name: 'Conv2D',
        config: {
          name: 'conv2d',
          trainable: true,
          filters: 4,
          kernel_size: [3, 3],
          strides: [1, 1],
          padding: 'valid',
          dtype: { module: 'keras', class_name: 'DTypePolicy', config: { name: 'float32' }, registered_name: null },
          data_format: 'channels_last',
          dilation_rate: [1, 1],
          groups: 1,
          activation: 'relu',
          use_bias: true,
          kernel_initializer: { module: 'keras.initializers', class_name: 'GlorotUniform', config: { seed: null } },
          bias_initializer: { module: 'keras.initializers', class_name: 'Zeros', config: {}, registered_name: null },
          kernel_regularizer: null,
          bias_regularizer: null,
          activity_regularizer: null,
          kernel_constraint: null,
          bias_constraint: null,
        },
        registered_name: null,
        build_config: { input_shape: [null, 28, 28, 1] },
      },
      { class_name: 'Flatten', config: { name: 'flatten', trainable: true, data_format: 'channels_last' } },
      {
        class_name: 'Dense',
        config: { name: 'dense', units: 10, activation: 'linear', use_bias: true, quantization_config: null },
      },
    ],
    build_input_shape: [null, 28, 28, 1],
  },
  registered_name: null,
  build_config: { input_shape: [null, 28, 28, 1] },
};

/** Returns a model of these layers. The input shape of the first layer is that of digits. */
function modelOf(...layers: readonly [kind: string, config: Record<string, unknown>][]): object {
  const [first, ...rest] = layers.map(([kind, config]) => ({ class_name: kind, config }));
  const whole = { ...first, config: { input_shape: [28, 28, 1], ...first!.config } };
  return { class_name: 'Sequential', config: { layers: [whole, ...rest] } };
}

const DENSE = ['Dense', { units: 10 }] as const;

function refusalOf(model: unknown): string {
  try {
    readJobFile('job.json', JSON.stringify({ peergrad: 1, model }));
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('The model was accepted.');
}

test("Keras's description of a model is accepted; fields that a job does not need are dropped", () => {
  const { model } = parseJob({ model: KERAS_3 });
  expect(model).toEqual({
    class_name: 'Sequential',
    config: {
      name: 'sequential',
      layers: [
        { class_name: 'InputLayer', config: { name: 'input_layer', batch_input_shape: [null, 28, 28, 1] } },
        {
          class_name: 'Conv2D',
          config: {
            name: 'conv2d',
            filters: 4,
            kernel_size: [3, 3],
            strides: [1, 1],
            padding: 'valid',
            activation: 'relu',
            use_bias: true,
          },
        },
        { class_name: 'Flatten', config: { name: 'flatten' } },
        { class_name: 'Dense', config: { name: 'dense', units: 10, activation: 'linear', use_bias: true } },
      ],
    },
  });
  if (typeof model === 'string') throw new Error('It is no model of its own.');
  expect(layerRowsOf(model)[1]).toEqual({ name: 'conv2d', kind: 'Conv2D', shape: [26, 26, 4], parameters: 40 });
});

test('a job with layers is the same after it was read from its file', () => {
  const job = parseJob({ model: modelOf(['Flatten', {}], ['Dropout', { rate: 0.5 }], [...DENSE]), seed: 3 });
  expect(readJobFile('job.json', writeJobFile(job)).job).toEqual(job);
});

test('layers without names always get the same names', () => {
  const { model } = parseJob({ model: modelOf(['Flatten', {}], ['Dense', { units: 8 }], [...DENSE]) });
  if (typeof model === 'string') throw new Error('It is no model of its own.');
  expect(layerRowsOf(model).map(({ name }) => name)).toEqual(['flatten1', 'dense1', 'dense2']);
});

test('a dimension of -1 in a shape is replaced by the number that it stands for', () => {
  const open = modelOf(['Reshape', { target_shape: [-1, 7] }], ['Flatten', {}], [...DENSE]);
  const { model } = parseJob({ model: open });
  expect(model).toMatchObject({ config: { layers: [{ config: { target_shape: [112, 7] } }, {}, {}] } });
});

const at = (layer: number): string => `job.json, line 1: model.config.layers[${layer}]`;

test.each<[string, unknown, string]>([
  [
    'a layer of code',
    modelOf(['Flatten', {}], ['Lambda', {}]),
    `${at(1)}.class_name: "Lambda" is not a supported layer: a job is data`,
  ],
  [
    'an unknown layer',
    modelOf(['Flatten', {}], ['Foo', {}]),
    `${at(1)}.class_name: "Foo" is not a supported layer: choose one of InputLayer, Dense,`,
  ],
  [
    'batch normalization',
    modelOf(['BatchNormalization', {}]),
    `${at(0)}.class_name: "BatchNormalization" is not a supported layer: its averages`,
  ],
  [
    'a field with a wrong name',
    modelOf(['Flatten', {}], ['Dense', { unit: 10 }]),
    `${at(1)}.config.units: the field "units" is missing.`,
  ],
  [
    'an unknown field',
    modelOf(['Flatten', {}], ['Dense', { units: 10, activatoin: 'relu' }]),
    `${at(1)}.config.activatoin: there is no such field; did you mean activation.`,
  ],
  [
    'a wrong type',
    modelOf(['Flatten', {}], ['Dense', { units: '10' }]),
    `${at(1)}.config.units: Invalid type: Expected number but received "10".`,
  ],
  [
    'an unknown activation',
    modelOf(['Flatten', {}], ['Dense', { units: 10, activation: 'sin' }]),
    `${at(1)}.config.activation: Invalid type: Expected ("linear"`,
  ],
  [
    'a penalty',
    modelOf(['Flatten', {}], ['Dense', { units: 10, kernel_regularizer: { class_name: 'L2' } }]),
    `${at(1)}.config.kernel_regularizer: regularizers and constraints are not supported`,
  ],
  [
    'a dilated convolution',
    modelOf(['Conv2D', { filters: 2, kernel_size: 3, dilation_rate: 2 }]),
    `${at(0)}.config.dilation_rate: dilated convolutions have no gradient`,
  ],
  [
    'a frozen layer',
    modelOf(['Flatten', {}], ['Dense', { units: 10, trainable: false }]),
    `${at(1)}.config.trainable: every layer of a job is trained`,
  ],
  [
    'a window that is too large',
    modelOf(['MaxPooling2D', { pool_size: 30 }]),
    `${at(0)}.config.pool_size: a window of [30, 30] does not fit`,
  ],
  [
    'a convolution after a Flatten',
    modelOf(['Flatten', {}], ['Conv2D', { filters: 2, kernel_size: 3 }]),
    `${at(1)}: the layer needs pictures, [height, width, channels], but gets [784]`,
  ],
  ['a second Flatten', modelOf(['Flatten', {}], ['Flatten', {}]), `${at(1)}: the input [784] is already flat`],
  [
    'a Reshape to another number of elements',
    modelOf(['Reshape', { target_shape: [10, 10] }]),
    `${at(0)}.config.target_shape: [10, 10] does not have the 784 elements`,
  ],
  [
    'a softmax that is not the last layer',
    modelOf(['Flatten', {}], ['Softmax', {}], [...DENSE]),
    `${at(1)}: only the last layer may be a softmax`,
  ],
  [
    'two layers with the same name',
    modelOf(['Flatten', { name: 'a' }], ['Dense', { units: 10, name: 'a' }]),
    `${at(1)}.config.name: another layer has the name "a"`,
  ],
  [
    'no shape',
    { class_name: 'Sequential', config: { layers: [{ class_name: 'Dense', config: { units: 10 } }] } },
    `${at(0)}.config: the first layer must state the shape of a sample`,
  ],
  ['nothing to learn', modelOf(['Flatten', {}]), 'job.json, line 1: model.config.layers: no layer has weights'],
  [
    'too many weights',
    modelOf(['Flatten', {}], ['Dense', { units: 60_000 }]),
    `${at(1)}: the model has 47100000 weights`,
  ],
  [
    'too much memory',
    modelOf(['Conv2D', { filters: 60_000, kernel_size: 1 }]),
    `${at(0)}: its output has 47040000 numbers per sample`,
  ],
  [
    'an input shape that differs from the shape of the samples',
    modelOf(['Flatten', { input_shape: [32, 32, 3] }], [...DENSE]),
    `${at(0)}.config.batch_input_shape: the model needs samples of [32, 32, 3], but samples of digits are [28, 28, 1], or [784] in one row.`,
  ],
  [
    'a number of outputs that differs from the number of classes',
    modelOf(['Flatten', {}], ['Dense', { units: 7 }]),
    `${at(1)}: the model outputs [7], but samples of digits have 10 classes: [10].`,
  ],
  [
    'a model of code',
    { class_name: 'MyModel', config: {} },
    'job.json, line 1: model.class_name: a model must be a Sequential, a sequence of layers, or a Functional',
  ],
  ['what joins nothing', modelOf(['Flatten', {}], ['Add', {}], [...DENSE]), `${at(1)}: the layer needs two or more`],
])('an invalid model is rejected with the path of the problem: %s', (_, model, expected) => {
  expect(refusalOf(model).slice(0, expected.length)).toBe(expected);
});

test('each stage of a pipeline counts as many weights for its layers as a tab with the whole model', () => {
  // 15.8 million weights.
  const model = modelOf(['Flatten', {}], ['Dense', { units: 20_000 }], [...DENSE]);
  expect(refusalOf(model)).toContain('at most 10000000 are supported in a tab: choose a pipeline');
  expect(parseJob({ model, strategy: 'pipeline' }).stages).toBe(2);
  const larger = modelOf(['Flatten', {}], ['Dense', { units: 30_000 }], [...DENSE]);
  expect(() => parseJob({ model: larger, strategy: 'pipeline' })).toThrow(/20000000 are supported in 2 stages/);
});

test('a model is rejected if its layers take more bytes than a message may have', () => {
  const norms = Array.from({ length: 62 }, (_, i): [string, Record<string, unknown>] => [
    'Conv2D',
    { filters: 1, kernel_size: 3, padding: 'same', name: `${'x'.repeat(60)}${i}` },
  ]);
  expect(refusalOf(modelOf(...norms, ['Flatten', {}], [...DENSE]))).toMatch(
    /^job\.json, line 1: model\.config\.layers: the layers take \d+ bytes, but at most 12288 are supported/,
  );
});

test.each(['gpt', 'lesson'])('the job %s supports no layers', (job) => {
  const data = { kind: job === 'gpt' ? 'built-in' : 'none' };
  expect(() => parseJob({ job, data, model: modelOf(['Flatten', {}], [...DENSE]) })).toThrow(/only the jobs digits/);
  expect(DEFAULT_JOB.model).toBe('mlp');
});

/** Returns a job with a ReLU layer as Keras writes it. */
const withRelu = (slope: number) => {
  const config = { name: 're_lu', trainable: true, dtype: 'float32', max_value: 6, negative_slope: slope };
  return {
    ...DEFAULT_JOB,
    model: modelOf(['Flatten', {}], ['ReLU', { ...config, threshold: 0 }], [...DENSE]),
  };
};

test('ReLU of Keras is accepted without a slope, and rejected with one', () => {
  expect(parseJob(withRelu(0)).model).toMatchObject({ config: { layers: [{}, { class_name: 'ReLU' }, {}] } });
  expect(() => parseJob(withRelu(0.1))).toThrow(/negative_slope: only 0 is supported/);
});
