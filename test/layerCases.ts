/** Layers with all their options, which tests compute on a backend and on the CPU backend. */
import * as tf from '@tensorflow/tfjs';
import { buildJobModel } from '../src/jobs/models/models.ts';
import * as v from 'valibot';
import { ModelTopology } from '../src/spec/topology.ts';
import type { LayerSpec } from '../src/spec/layers.ts';

export interface LayerCase {
  name: string;
  /** Returns the output and the gradients of a weighted sum of it. */
  compute: () => tf.Tensor[];
}

type ClassName = LayerSpec['class_name'];
type ConfigOf<Name extends ClassName> = Extract<LayerSpec, { class_name: Name }>['config'];
/** Values of each field that a layer has, beside its name and the shape of its input. */
type OptionsOf<Name extends ClassName> = {
  [Field in Exclude<keyof ConfigOf<Name>, 'name' | 'batch_input_shape'>]-?: readonly unknown[];
};

const ACTIVATIONS = [
  ...['linear', 'relu', 'relu6', 'elu', 'selu', 'gelu', 'swish', 'silu', 'sigmoid', 'tanh', 'softplus', 'softsign'],
];
const WINDOWS = {
  kernel_size: [1, 2, 3, [3, 1], [1, 3]],
  strides: [1, 2, 4, [1, 2], [3, 1]],
  padding: ['same', 'valid'],
  activation: ['linear', 'relu', 'tanh'],
  use_bias: [true, false],
};
const POOLS = { pool_size: WINDOWS.kernel_size, strides: [null, ...WINDOWS.strides], padding: WINDOWS.padding };

/** Every layer of a job, with every field: the compiler reports what is missing. */
const JOB_LAYERS: { [Name in ClassName]: OptionsOf<Name> } = {
  InputLayer: {},
  Dense: { units: [1, 4], activation: ACTIVATIONS, use_bias: [true, false] },
  Conv2D: { filters: [1, 4], ...WINDOWS },
  DepthwiseConv2D: { depth_multiplier: [1, 2], ...WINDOWS },
  MaxPooling2D: POOLS,
  AveragePooling2D: POOLS,
  GlobalMaxPooling2D: {},
  GlobalAveragePooling2D: {},
  ZeroPadding2D: { padding: [1, [0, 2], [[1, 0], [2, 3]]] }, // prettier-ignore
  Flatten: {},
  Reshape: { target_shape: [[-1], [6, 21], [3, 7, 6]] },
  Activation: { activation: ACTIVATIONS },
  ReLU: { max_value: [null, 0.5] },
  Softmax: { axis: [-1] },
  Dropout: { rate: [0, 0.5] },
  Add: {},
  Multiply: {},
  Concatenate: { axis: [-1] },
  LayerNormalization: { axis: [-1], epsilon: [0.001, 0.1], center: [true, false], scale: [true, false] },
};

const INPUT: [number, number, number] = [7, 6, 2];
const CLASSES = 3;

/** If there are more combinations, one in five is tested: at least one for each size of windows. */
const MANY = 200;

function combinationsOf(options: Record<string, readonly unknown[]>): Record<string, unknown>[] {
  const all = Object.entries(options).reduce<Record<string, unknown>[]>(
    (some, [field, values]) => some.flatMap((one) => values.map((value) => ({ ...one, [field]: value }))),
    [{}],
  );
  return all.length > MANY ? all.filter((_, i) => i % 5 === 0) : all;
}

/** The inputs of a layer of a model with branches. */
const from = (...names: string[]): unknown => [names.map((name) => [name, 0, 0])];

/** Returns a model whose first weights have gradients that depend on those of the layer's input. */
function modelWith(layer: { class_name: ClassName; config: object }): object {
  const conv = { filters: 3, kernel_size: 1 };
  const [flatten, answer] = [
    { class_name: 'Reshape', config: { target_shape: [-1] } },
    { class_name: 'Dense', config: { units: CLASSES } },
  ];
  if (['Add', 'Multiply', 'Concatenate'].includes(layer.class_name)) {
    const layers = [
      { class_name: 'InputLayer', name: 'input', config: { input_shape: INPUT }, inbound_nodes: [] },
      { class_name: 'Conv2D', name: 'left', config: conv, inbound_nodes: from('input') },
      { class_name: 'Conv2D', name: 'right', config: conv, inbound_nodes: from('input') },
      { ...layer, name: 'joined', inbound_nodes: from('left', 'right', 'left') },
      { ...flatten, name: 'flat', inbound_nodes: from('joined') },
      { ...answer, name: 'answer', inbound_nodes: from('flat') },
    ];
    const ends = { input_layers: [['input', 0, 0]], output_layers: [['answer', 0, 0]] };
    return { class_name: 'Functional', config: { layers, ...ends } };
  }
  const first = { class_name: 'Conv2D', config: { ...conv, input_shape: INPUT } };
  const layers = {
    InputLayer: [{ ...layer, config: { input_shape: INPUT } }, flatten, answer],
    Softmax: [first, flatten, answer, layer],
  }[layer.class_name as string] ?? [first, layer, flatten, answer];
  return { class_name: 'Sequential', config: { layers } };
}

/** Cases for each layer of a job, by its class. */
export const jobCases: readonly [ClassName, LayerCase[]][] = (Object.keys(JOB_LAYERS) as ClassName[]).map((name) => [
  name,
  combinationsOf(JOB_LAYERS[name]).map((config) => ({
    name: JSON.stringify(config),
    compute: () => {
      const topology = v.parse(ModelTopology, modelWith({ class_name: name, config }));
      const model = buildJobModel({ model: topology, hidden: 1, seed: 1 }, { inputShape: INPUT, classes: CLASSES });
      const x = waves([2, ...INPUT]);
      const results = resultsOf(() => model.logits(x), [...model.variables]);
      model.dispose();
      return results;
    },
  })),
]);

const seeded = (seed: number): ReturnType<typeof tf.initializers.glorotUniform> =>
  tf.initializers.glorotUniform({ seed });
const kernelInitializer = seeded(1);
const [depthwiseInitializer, pointwiseInitializer, recurrentInitializer] = [seeded(2), seeded(3), seeded(4)];
const padding = ['same', 'valid'] as const;
/** Only cubes: for other windows, the CPU backend computes wrong gradients of maxPooling3d. */
const CUBES = [1, 2, 3].map((side) => [side, side, side]);

/** A layer of TensorFlow.js, the shape of a sample, and for indices, the number of them. */
type StockLayer = [name: string, create: (options: never) => tf.layers.Layer, shape: number[], indices?: number];

/** Options of each layer that a program may use but a job does not have. */
const STOCK_LAYERS: readonly [StockLayer, Record<string, readonly unknown[]>][] = [
  [
    ['conv1d', tf.layers.conv1d, [9, 3]],
    { filters: [2], kernelSize: [1, 2, 3], strides: [1, 2, 4], padding, kernelInitializer: [kernelInitializer] },
  ],
  [
    ['separableConv2d', tf.layers.separableConv2d, [7, 6, 3]],
    {
      ...{ filters: [2], kernelSize: [1, 2, [3, 1]], strides: [1, 2, 4], padding, depthMultiplier: [1, 2] },
      ...{ depthwiseInitializer: [depthwiseInitializer], pointwiseInitializer: [pointwiseInitializer] },
    },
  ],
  [
    ['conv2dTranspose', tf.layers.conv2dTranspose, [4, 3, 3]],
    { filters: [2], kernelSize: [1, 2, [3, 1]], strides: [1, 3], padding, kernelInitializer: [kernelInitializer] },
  ],
  [
    ['conv3d', tf.layers.conv3d, [5, 6, 4, 2]],
    { filters: [3], kernelSize: [1, 2, 3], strides: [1, 2], padding, kernelInitializer: [kernelInitializer] },
  ],
  ...(['maxPooling1d', 'averagePooling1d'] as const).map((name): [StockLayer, Record<string, readonly unknown[]>] => [
    [name, tf.layers[name], [9, 3]],
    { poolSize: [1, 2, 3], strides: [1, 2, 4], padding },
  ]),
  ...(['maxPooling3d', 'averagePooling3d'] as const).map((name): [StockLayer, Record<string, readonly unknown[]>] => [
    [name, tf.layers[name], [5, 6, 4, 2]],
    { poolSize: CUBES, strides: CUBES, padding },
  ]),
  [['globalMaxPooling1d', tf.layers.globalMaxPooling1d, [4, 3]], {}],
  [['globalAveragePooling1d', tf.layers.globalAveragePooling1d, [4, 3]], {}],
  // Bilinear and square: the CPU backend computes wrong gradients of others, or none.
  [['upSampling2d', tf.layers.upSampling2d, [3, 3, 2]], { size: [[2, 2]], interpolation: ['bilinear'] }],
  [['cropping2D', tf.layers.cropping2D, [5, 5, 2]], { cropping: [[[1, 1], [0, 2]]] }], // prettier-ignore
  [['permute', tf.layers.permute, [3, 4, 2]], { dims: [[3, 1, 2]] }],
  [['repeatVector', tf.layers.repeatVector, [3]], { n: [2] }],
  [
    ['activation', tf.layers.activation, [5, 4]],
    { activation: ['gelu_new', 'mish', 'hardSigmoid', 'softmax', 'logSoftmax'] },
  ],
  [['leakyReLU', tf.layers.leakyReLU, [5, 4]], { alpha: [0.2] }],
  [['elu', tf.layers.elu, [5, 4]], {}],
  [
    ['prelu', tf.layers.prelu, [3, 4, 5]],
    { sharedAxes: [null, [1], [2], [3], [1, 2], [1, 3]], alphaInitializer: [kernelInitializer] },
  ],
  [['batchNormalization', tf.layers.batchNormalization, [3, 3, 4]], { momentum: [0.9] }],
  [['layerNormalization', tf.layers.layerNormalization, [5, 4]], { axis: [1, [1, 2]] }],
  [['embedding', tf.layers.embedding, [6], 5], { inputDim: [5], outputDim: [3], embeddingsInitializer: ['ones'] }],
  ...(['simpleRNN', 'gru', 'lstm'] as const).map((name): [StockLayer, Record<string, readonly unknown[]>] => [
    [name, tf.layers[name], [4, 3]],
    {
      ...{ units: [3], returnSequences: [true, false], goBackwards: [true, false] },
      ...{ kernelInitializer: [kernelInitializer], recurrentInitializer: [recurrentInitializer] },
    },
  ]),
];

/** Cases for each layer that only programs may use. */
export const stockCases: readonly [string, LayerCase[]][] = STOCK_LAYERS.map(
  ([[name, create, shape, indices], options]) => [
    name,
    combinationsOf(options).map((config) => ({
      name: JSON.stringify(config, (_, value: unknown) =>
        value instanceof tf.serialization.Serializable ? '' : value,
      ),
      compute: () => {
        const layer = create({ ...config } as never);
        layer.build([null, ...shape]);
        layer.built = true;
        const values = waves([2, ...shape]);
        const x = tf.variable(indices === undefined ? values : values.abs().mul(indices).floor());
        const weights = layer.trainableWeights.map((weight) => weight.read() as tf.Variable);
        const apply = (): tf.Tensor => layer.apply(x, { training: true }) as tf.Tensor;
        const results = resultsOf(apply, indices === undefined ? [x, ...weights] : weights);
        tf.dispose([x, ...layer.weights.map((weight) => weight.read())]);
        return results;
      },
    })),
  ],
);

/** Different values of both signs, between -1 and 1. */
function waves(shape: number[], frequency = 1.7): tf.Tensor {
  const values = Float32Array.from({ length: tf.util.sizeFromShape(shape) }, (_, i) => Math.sin(frequency * i + 0.3));
  return tf.tensor(values, shape);
}

function resultsOf(apply: () => tf.Tensor, variables: tf.Variable[]): tf.Tensor[] {
  const output = apply();
  const { grads } = tf.variableGrads(() => apply().mul(waves(output.shape, 0.9)).sum(), variables);
  return [output, ...variables.map((variable) => grads[variable.name]!)];
}

const TOLERANCE = 1e-4;

/** Returns the cases whose results on `backend` are not those of the CPU backend. */
export async function differencesOf(cases: readonly LayerCase[], backend: string): Promise<string[]> {
  const differences: string[] = [];
  for (const { name, compute } of cases) {
    const expected = await valuesOf(compute, 'cpu');
    const actual = await valuesOf(compute, backend).catch((error: unknown) => String(error));
    if (typeof actual === 'string') {
      differences.push(`${name}: ${actual}`);
      continue;
    }
    const errors = expected.map((values, i) => errorOf(actual[i]!, values));
    if (errors.some((error) => !(error < TOLERANCE))) differences.push(`${name}: ${errors.join(', ')}`);
  }
  return differences;
}

async function valuesOf(compute: () => tf.Tensor[], backend: string): Promise<Float32Array[]> {
  const before = tf.getBackend();
  await tf.setBackend(backend);
  try {
    const results = tf.tidy(compute);
    const values = await Promise.all(results.map((tensor) => tensor.data<'float32'>()));
    tf.dispose(results);
    return values.map((array) => array.slice());
  } finally {
    await tf.setBackend(before);
  }
}

/** The largest difference, divided by the largest value. */
function errorOf(actual: Float32Array, expected: Float32Array): number {
  if (actual.length !== expected.length) return Infinity;
  const largest = Math.max(1e-2, ...expected.map(Math.abs));
  return Math.max(...expected.map((value, i) => Math.abs(value - actual[i]!))) / largest;
}
