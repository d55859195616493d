/**
 * Every layer of TensorFlow.js with every field of its configuration: a pipeline computes what
 * `tf.Sequential` computes (losses with penalties, weights after steps, outputs), or rejects the
 * property by name.
 */
import * as tf from '@tensorflow/tfjs';
import { afterEach, describe, expect, test } from 'vitest';
import {
  dense,
  expectSame,
  initialOf,
  SAMPLES,
  trainAlone,
  trainInPipeline,
  type Layer,
  type Model,
  type Options,
} from './againstSequential.ts';

type Config = Record<string, unknown>;

const RANDOM = Object.getOwnPropertyDescriptor(Math, 'random')!;
afterEach(() => void Object.defineProperty(Math, 'random', RANDOM));

const CONSTANT = 0.25;

/**
 * Makes all random numbers of TensorFlow.js equal, so that both trainings draw the same ones. The
 * pipeline's own generators are ignored.
 */
function drawConstants(): void {
  Object.defineProperty(Math, 'random', { configurable: true, get: () => () => CONSTANT, set: () => {} });
}

/** The shapes of a sample for layers of sequences, pictures and volumes. */
const SHAPES = { flat: [6], sequence: [4, 3], picture: [4, 4, 2], volume: [2, 2, 2, 2], film: [3, 4, 4, 1] } as const;

interface Case {
  shape: keyof typeof SHAPES;
  config?: Config;
  /** Whether nothing is trained before the layer, because it has no gradient of its input. */
  isFirst?: boolean;
  microBatches?: number;
  /** For layers that TensorFlow.js cannot train: the error in a pipeline, or `trains`. */
  fails?: RegExp | 'trains';
  /** A random layer whose seed is not a field. */
  isRandom?: boolean;
  inputs?: () => tf.Tensor;
}

const conv = { filters: 2, kernelSize: 2 };
const ids = () => tf.tensor2d([1, 2, 0, 0, 3, 1, 2, 0, 2, 0, 0, 0, 1, 2, 3, 3], [SAMPLES, 4], 'int32');
const plain2 = { shape: 'picture' } as const;

/** By the name of the function in `tf.layers`. */
const CASES: Record<string, Case> = {
  activation: { shape: 'flat', config: { activation: 'tanh' } },
  alphaDropout: { shape: 'flat', config: { rate: 0.3 }, isRandom: true },
  averagePooling1d: { shape: 'sequence', config: { poolSize: 2 } },
  averagePooling2d: plain2,
  averagePooling3d: { shape: 'volume' },
  batchNormalization: { shape: 'flat', microBatches: 1 },
  bidirectional: { shape: 'sequence', config: { mergeMode: 'concat' } },
  categoryEncoding: {
    shape: 'flat',
    config: { numTokens: 5, outputMode: 'multiHot' },
    isFirst: true,
    inputs: ids,
    fails: 'trains',
  },
  centerCrop: { ...plain2, config: { height: 2, width: 2 }, isFirst: true, fails: 'trains' },
  conv1d: { shape: 'sequence', config: conv },
  conv2d: { ...plain2, config: conv },
  conv2dTranspose: { ...plain2, config: conv },
  conv3d: { shape: 'volume', config: conv },
  conv3dTranspose: { shape: 'volume', config: conv, fails: /gradient function not found/ },
  convLstm2d: { shape: 'film', config: conv },
  cropping2D: {
    ...plain2,
    config: {
      cropping: [
        [1, 1],
        [1, 0],
      ],
    },
  },
  dense: { shape: 'flat', config: { units: 3 } },
  depthwiseConv2d: { ...plain2, config: { kernelSize: 2 } },
  dropout: { shape: 'flat', config: { rate: 0.3, seed: 7 }, microBatches: 1 },
  elu: { shape: 'flat' },
  embedding: { shape: 'flat', config: { inputDim: 4, outputDim: 3, inputLength: 4 }, isFirst: true, inputs: ids },
  flatten: plain2,
  gaussianDropout: { shape: 'flat', config: { rate: 0.3 }, isRandom: true },
  gaussianNoise: { shape: 'flat', config: { stddev: 0.3 }, isRandom: true },
  globalAveragePooling1d: { shape: 'sequence' },
  globalAveragePooling2d: plain2,
  globalMaxPooling1d: { shape: 'sequence' },
  globalMaxPooling2d: plain2,
  gru: { shape: 'sequence', config: { units: 3 } },
  layerNormalization: { shape: 'flat' },
  leakyReLU: { shape: 'flat' },
  lstm: { shape: 'sequence', config: { units: 3 } },
  masking: { shape: 'sequence', isFirst: true },
  maxPooling1d: { shape: 'sequence', config: { poolSize: 2 } },
  maxPooling2d: plain2,
  maxPooling3d: { shape: 'volume' },
  permute: { shape: 'sequence', config: { dims: [2, 1] } },
  prelu: { shape: 'flat' },
  reLU: { shape: 'flat' },
  repeatVector: { shape: 'flat', config: { n: 2 } },
  rescaling: { shape: 'flat', config: { scale: 0.5, offset: 0.1 } },
  reshape: { shape: 'flat', config: { targetShape: [2, 3] } },
  resizing: { ...plain2, config: { height: 2, width: 2 }, isFirst: true, fails: /"tested" has the output shape/ },
  rnn: { shape: 'sequence' },
  separableConv2d: { ...plain2, config: conv },
  simpleRNN: { shape: 'sequence', config: { units: 3 } },
  softmax: { shape: 'flat' },
  spatialDropout1d: { shape: 'sequence', config: { rate: 0.3, seed: 7 }, microBatches: 1 },
  thresholdedReLU: { shape: 'flat', isFirst: true },
  timeDistributed: { shape: 'sequence' },
  // TensorFlow.js's gradient on the CPU is wrong for several samples.
  upSampling2d: { ...plain2, config: { size: [2, 2] }, microBatches: 1 },
  zeroPadding2d: plain2,
};

/** Functions of `tf.layers` that are no layers of a chain. */
const OTHERS: Record<string, readonly string[]> = {
  aliases: [
    ...['avgPool1d', 'avgPooling1d', 'avgPool2d', 'avgPooling2d', 'avgPool3d', 'avgPooling3d'],
    ...['globalMaxPool1d', 'globalMaxPool2d', 'maxPool1d', 'maxPool2d'],
  ],
  'layers of several inputs': ['add', 'average', 'concatenate', 'dot', 'maximum', 'minimum', 'multiply'],
  'cells of recurrent layers': ['convLstm2dCell', 'gruCell', 'lstmCell', 'simpleRNNCell', 'stackedRNNCells'],
  'base classes': ['Layer', 'RNN', 'RNNCell'],
  inputs: ['input', 'inputLayer'],
  'a layer whose output has a random shape': ['randomWidth'],
};

const WRAPPED: Record<string, () => Config> = {
  bidirectional: () => ({ layer: tf.layers.lstm({ units: 2, returnSequences: true }) }),
  timeDistributed: () => ({ layer: dense(2, { kernelRegularizer: 'l1l2' }) }),
  rnn: () => ({ cell: tf.layers.lstmCell({ units: 2 }) }),
};

type Factory = (config?: object) => Layer;
const factories = tf.layers as unknown as Record<string, Factory>;

/** The layer with more fields, between layers whose gradients depend on it. */
function chainOf(name: string, more: Config = {}): Model {
  const { shape, config, isFirst } = CASES[name]!;
  const inputShape = [...SHAPES[shape]];
  return () => {
    const layer = (input: object): Layer =>
      factories[name]!({ name: 'tested', ...input, ...config, ...WRAPPED[name]?.(), ...more });
    const first = { inputShape: name === 'categoryEncoding' ? [4] : inputShape };
    const layers =
      name === 'embedding'
        ? [layer({})]
        : isFirst
          ? [tf.layers.rescaling({ ...first, scale: 0.5 }), layer({})]
          : [dense(inputShape.at(-1)!, { ...first, activation: 'tanh' }), layer({})];
    const output = layers.reduce(
      (input, each) => each.computeOutputShape([...input]) as tf.Shape,
      layers[0]!.batchInputShape,
    );
    return [...layers, ...(output.length > 2 ? [tf.layers.flatten()] : []), dense(2)];
  };
}

function optionsOf(name: string): Options {
  const { microBatches = 2, isRandom, inputs } = CASES[name]!;
  // Layers without a seed draw it.
  if (isRandom) drawConstants();
  return { microBatches: isRandom ? 1 : microBatches, ...(inputs && { inputs: inputs() }) };
}

function tested(layers: readonly Layer[]): Layer {
  return layers.find(({ name }) => name === 'tested')!;
}

function freeze(layers: readonly Layer[]): void {
  tested(layers).trainable = false;
}

/** Names of the fields of a layer. */
function fieldsOf(name: string): string[] {
  return Object.keys(tested(chainOf(name)()).getConfig());
}

/** Values of the fields that say more than how a layer computes its output from its input. */
const VALUES: Record<string, unknown> = {
  ...Object.fromEntries(
    ['kernel', 'bias', 'recurrent', 'embeddings', 'depthwise', 'pointwise', 'gamma', 'beta', 'alpha'].flatMap(
      (weight) => [
        [`${weight}Regularizer`, { className: 'L1L2', config: { l1: 0.01, l2: 0.5 } }],
        [`${weight}Constraint`, 'unitNorm'],
      ],
    ),
  ),
  trainable: false,
  batchInputShape: 'batchInputShape',
  noiseShape: [null, 1],
  seed: 11,
  maskZero: true,
  maskValue: 0,
  returnSequences: true,
  goBackwards: true,
  dropout: 0.3,
  recurrentDropout: 0.3,
  supportsMasking: true,
  activityRegularizer: 'l1l2',
};
/** Fields that a pipeline rejects by name. */
const REJECTED: Record<string, [value: unknown, message: RegExp]> = {
  stateful: [true, /The layer "tested" is stateful.*train it without a pipeline\./],
  activityRegularizer: ['l1l2', /The layer "tested" has an activityRegularizer.*Remove it/],
  returnState: [true, /The layer "tested" has several outputs/],
};
/** Fields that only describe a layer's own computation, and are set in {@link CASES}. */
const COMPUTED = new Set([
  ...['name', 'dtype', 'layer', 'cell', 'mergeMode', 'numConstants', 'implementation', 'unroll'],
  ...['activation', 'recurrentActivation', 'useBias', 'unitForgetBias', 'resetAfter', 'units', 'rank', 'filters'],
  ...[
    'kernelSize',
    'strides',
    'padding',
    'dataFormat',
    'dilationRate',
    'depthMultiplier',
    'poolSize',
    'size',
    'cropping',
  ],
  ...[
    'inputDim',
    'outputDim',
    'inputLength',
    'numTokens',
    'outputMode',
    'height',
    'width',
    'interpolation',
    'cropToAspectRatio',
  ],
  ...['axis', 'momentum', 'epsilon', 'center', 'scale', 'offset', 'rate', 'stddev', 'alpha', 'theta', 'maxValue'],
  ...['sharedAxes', 'targetShape', 'dims', 'n'],
]);

test('every layer of TensorFlow.js is in the table, or cannot be in a chain', () => {
  const known = [...Object.keys(CASES), ...Object.values(OTHERS).flat()].sort();
  expect(known).toEqual(Object.keys(tf.layers).sort());
});

test.each(Object.entries(CASES).flatMap(([name, { fails }]) => (fails ? [[name, fails] as const] : [])))(
  '%s, which TensorFlow.js cannot train, is rejected in a pipeline or learns',
  async (name, fails) => {
    const options = optionsOf(name);
    await expect(trainAlone(chainOf(name), initialOf(chainOf(name)), options)).rejects.toThrow();
    const training = trainInPipeline(chainOf(name), null, options);
    if (fails === 'trains') expect((await training).losses[1]).toBeLessThan((await training).losses[0]!);
    else await expect(training).rejects.toThrow(fails);
  },
);

describe.each(Object.keys(CASES).filter((name) => !CASES[name]!.fails))('%s', (name) => {
  test('learns in a pipeline what it learns in tf.Sequential', async () => {
    await expectSame(chainOf(name), optionsOf(name));
  });

  test('can be frozen in its constructor, after it was built, and between two steps', async () => {
    await expectSame(chainOf(name, { trainable: false }), optionsOf(name));
    await expectSame(chainOf(name), { ...optionsOf(name), prepare: freeze });
    await expectSame(chainOf(name), { ...optionsOf(name), between: (layers, step) => step === 1 && freeze(layers) });
  });

  test('has only fields that a pipeline uses or rejects by name', async () => {
    const unknown: string[] = [];
    for (const field of fieldsOf(name)) {
      if (COMPUTED.has(field) || field.endsWith('Initializer')) continue;
      // TensorFlow.js ignores those of recurrent layers.
      const isIgnored = field === 'activityRegularizer' && 'cell' in tested(chainOf(name)());
      if (field in REJECTED && !isIgnored) {
        const [value, message] = REJECTED[field]!;
        const make = chainOf(name, { [field]: value });
        await expect(trainInPipeline(make, null, optionsOf(name)), field).rejects.toThrow(message);
      } else if (!(field in VALUES)) unknown.push(field);
      else {
        const value = field === 'batchInputShape' ? [SAMPLES, 4] : VALUES[field];
        if (field.endsWith('ropout')) drawConstants();
        const options = field.endsWith('ropout') ? { ...optionsOf(name), microBatches: 1 } : optionsOf(name);
        await expectSame(chainOf(name, { [field]: value }), options);
      }
    }
    expect(unknown).toEqual([]);
  });
});
