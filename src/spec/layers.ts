/**
 * Schemas of the layers that custom models may have. Their gradients exist on every backend. Layers
 * are read in the formats of Keras 2, Keras 3 and TensorFlow.js. Initializers are dropped, because
 * the job's seed determines the initial weights. Module names are dropped, because nothing uses
 * them.
 */
import * as v from 'valibot';
import { strictFieldsSchema } from './fields.ts';

/** Largest dimension of a layer's output. */
const MAX_SIDE = 65_536;
const MAX_WINDOW = 64;

const ACTIVATIONS = [
  ...(['linear', 'relu', 'relu6', 'elu', 'selu', 'gelu', 'swish', 'sigmoid', 'tanh', 'softplus', 'softsign'] as const),
  'softmax',
] as const;

const count = (max: number) => v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(max));
const flag = (usual: boolean) => v.optional(v.boolean(), usual);
const share = v.pipe(v.number(), v.minValue(0), v.maxValue(0.95));
const epsilon = v.pipe(v.number(), v.gtValue(0), v.maxValue(1));

/** Returns a schema for one number for both sides, or two numbers, one for each side. */
const sides = (max: number) =>
  v.pipe(
    v.union([count(max), v.tuple([count(max), count(max)])]),
    v.transform((value): [number, number] => (typeof value === 'number' ? [value, value] : value)),
  );

const activation = v.pipe(
  v.optional(v.nullable(v.picklist([...ACTIVATIONS, 'silu'])), 'linear'),
  v.transform((name) => (name === 'silu' ? 'swish' : (name ?? 'linear'))),
);
const padding = v.optional(v.picklist(['valid', 'same']), 'valid');
const pool = {
  pool_size: v.optional(sides(MAX_WINDOW), 2),
  strides: v.optional(v.nullable(sides(MAX_WINDOW)), null),
  padding,
};
const strides = v.optional(sides(MAX_WINDOW), 1);

/** Padding: the number of rows or columns of zeros that are added at a side of a picture. */
const border = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(MAX_WINDOW));
const borders = v.pipe(
  v.union([border, v.tuple([border, border]), v.tuple([v.tuple([border, border]), v.tuple([border, border])])]),
  v.transform((value): [[number, number], [number, number]] => {
    const [rows, columns] = typeof value === 'number' ? [value, value] : value;
    return [typeof rows === 'number' ? [rows, rows] : rows, typeof columns === 'number' ? [columns, columns] : columns];
  }),
);

const batchShape = v.tupleWithRest([v.null('the batch dimension must be null')], count(MAX_SIDE));

/**
 * The fields for the input shape of the first layer: as written by Keras 2 and TensorFlow.js, by
 * Keras 3, and by people.
 */
const SHAPES = {
  batch_input_shape: v.optional(batchShape),
  batch_shape: v.optional(batchShape),
  input_shape: v.optional(v.array(count(MAX_SIDE))),
};

const any = v.optional(v.unknown());
const only = <const Value extends boolean | 0 | 1>(value: Value, why: string) => v.optional(v.literal(value, why));
const none = (why: string) => v.optional(v.null(why));
const UNPENALIZED = 'regularizers and constraints are not supported: remove the field, and use weightDecay';
const UNDILATED = 'dilated convolutions have no gradient in TensorFlow.js: remove the field';

/**
 * Fields that a layer may have but a job ignores. A value that would change the model is rejected.
 */
const UNUSED = {
  trainable: only(true, 'every layer of a job is trained: remove the field'),
  dtype: v.optional(v.custom<unknown>(isFloat32, 'only float32 is supported')),
  data_format: v.optional(v.picklist(['channels_last'], 'only "channels_last" is supported')),
  dilation_rate: v.optional(v.union([v.literal(1), v.tuple([v.literal(1), v.literal(1)])], UNDILATED)),
  groups: only(1, 'grouped convolutions are not supported: remove the field'),
  keepdims: only(false, 'only false is supported: put a Reshape after the layer'),
  rms_scaling: only(false, 'only false is supported'),
  negative_slope: only(0, 'only 0 is supported'),
  threshold: only(0, 'only 0 is supported'),
  seed: any,
  noise_shape: none('noise shapes are not supported: remove the field'),
  kernel_initializer: any,
  depthwise_initializer: any,
  bias_initializer: any,
  gamma_initializer: any,
  beta_initializer: any,
  kernel_regularizer: none(UNPENALIZED),
  depthwise_regularizer: none(UNPENALIZED),
  bias_regularizer: none(UNPENALIZED),
  activity_regularizer: none(UNPENALIZED),
  gamma_regularizer: none(UNPENALIZED),
  beta_regularizer: none(UNPENALIZED),
  kernel_constraint: none(UNPENALIZED),
  depthwise_constraint: none(UNPENALIZED),
  bias_constraint: none(UNPENALIZED),
  gamma_constraint: none(UNPENALIZED),
  beta_constraint: none(UNPENALIZED),
  lora_rank: none('all weights are trained'),
  lora_alpha: any,
  quantization_config: none('only float32 is supported'),
  sparse: only(false, 'samples are dense'),
  ragged: only(false, 'all samples have one shape'),
  optional: any,
};

export const LayerNameSchema = v.optional(
  v.pipe(v.string(), v.maxLength(64), v.regex(/^[\w.-]+$/, 'a name may contain letters, digits, "_", "." and "-"')),
);

/**
 * Returns a schema for a layer of Keras's class `name`, with the fields `entries` in addition to
 * the fields that every layer may have.
 */
function layer<const Name extends string, const Entries extends v.ObjectEntries>(name: Name, entries: Entries) {
  const fields: v.GenericSchema<unknown, CommonFields & OutputOf<Entries>> = strictFieldsSchema({
    name: LayerNameSchema,
    ...entries,
    ...SHAPES,
    ...UNUSED,
  });
  const own = Object.keys(entries);
  return v.object({
    class_name: v.literal(name),
    config: v.pipe(
      fields,
      v.transform((config) => normalized<Entries>(config, own)),
    ),
  });
}

type OutputOf<Entries extends v.ObjectEntries> = v.InferOutput<v.StrictObjectSchema<Entries, undefined>>;
type CommonFields = OutputOf<typeof SHAPES & { name: typeof LayerNameSchema }>;

/**
 * Returns the fields in a fixed order, with the name first, so that equal layers are serialized
 * equally.
 */
function normalized<Entries extends v.ObjectEntries>(config: CommonFields & OutputOf<Entries>, own: readonly string[]) {
  const { name, batch_shape: keras3, input_shape: byHand } = config;
  const shape = config.batch_input_shape ?? keras3 ?? (byHand && ([null, ...byHand] as [null, ...number[]]));
  const fields = own.map((field) => [field, config[field as keyof typeof config]]);
  return {
    ...(name !== undefined && { name }),
    ...(shape !== undefined && { batch_input_shape: shape }),
    ...(Object.fromEntries(fields) as OutputOf<Entries>),
  };
}

const integer = v.pipe(v.number(), v.integer());
/**
 * A dimension of a Reshape's target. At most one dimension is -1 (null in TensorFlow.js): its size
 * follows from the number of elements.
 */
const side = v.pipe(
  v.union([count(MAX_SIDE), v.literal(-1), v.null()]),
  v.transform((value) => value ?? -1),
);

/** Reasons why some common layers are not supported. */
const MISSED: Readonly<Record<string, string>> = {
  Lambda: 'a job is data and never code',
  BatchNormalization:
    'its averages would differ between ranks and include the padding of short batches: use LayerNormalization',
  Embedding: 'only the job gpt has tokens as data, and it has its own model',
};

export const LayerSpec = v.variant(
  'class_name',
  [
    layer('InputLayer', {}),
    layer('Dense', { units: count(MAX_SIDE), activation, use_bias: flag(true) }),
    layer('Conv2D', {
      filters: count(MAX_SIDE),
      kernel_size: sides(MAX_WINDOW),
      strides,
      padding,
      activation,
      use_bias: flag(true),
    }),
    layer('DepthwiseConv2D', {
      depth_multiplier: v.optional(count(MAX_WINDOW), 1),
      kernel_size: sides(MAX_WINDOW),
      strides,
      padding,
      activation,
      use_bias: flag(true),
    }),
    layer('MaxPooling2D', pool),
    layer('AveragePooling2D', pool),
    layer('GlobalMaxPooling2D', {}),
    layer('GlobalAveragePooling2D', {}),
    layer('ZeroPadding2D', { padding: v.optional(borders, 1) }),
    layer('Flatten', {}),
    layer('Reshape', {
      target_shape: v.pipe(v.array(side), v.minLength(1), v.maxLength(4)),
    }),
    layer('Activation', { activation }),
    layer('ReLU', { max_value: v.optional(v.nullable(v.pipe(v.number(), v.gtValue(0))), null) }),
    layer('Softmax', { axis: v.optional(integer, -1) }),
    layer('Dropout', { rate: share }),
    layer('Add', {}),
    layer('Multiply', {}),
    layer('Concatenate', { axis: v.optional(integer, -1) }),
    layer('LayerNormalization', {
      axis: v.optional(v.union([integer, v.tuple([integer])]), -1),
      epsilon: v.optional(epsilon, 0.001),
      center: flag(true),
      scale: flag(true),
    }),
  ],
  ({ input, expected, message }) => {
    if (typeof input !== 'string') return message;
    const why = Object.hasOwn(MISSED, input)
      ? MISSED[input]
      : `choose one of ${expected?.replaceAll(/[()"]/g, '').replaceAll(' | ', ', ')}`;
    return `${JSON.stringify(input)} is not a supported layer: ${why}`;
  },
);
export type LayerSpec = v.InferOutput<typeof LayerSpec>;

/**
 * Returns whether the type is float32, or `null`, which stands for the default. Keras 3 writes
 * types as objects, other versions write a name.
 */
function isFloat32(dtype: unknown): boolean {
  if (typeof dtype !== 'object' || dtype === null) return dtype === 'float32' || dtype === null;
  const { config } = dtype as { config?: { name?: unknown } };
  return config?.name === 'float32';
}
