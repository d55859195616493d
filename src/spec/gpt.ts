/**
 * The size and the kind of tokens of a language model, as fields of a job. Presets are named sizes
 * for people; a job contains only the numbers.
 */
import * as v from 'valibot';
import { field, strictFieldsSchema, schemasOfFields } from './fields.ts';

/**
 * Kinds of tokens. `characters`: one token per character of the text. `byte-pairs`: one token per
 * byte, and one token for each frequent pair of tokens.
 */
export const TOKEN_KINDS = ['characters', 'byte-pairs'] as const;
export type TokenKind = (typeof TOKEN_KINDS)[number];

/** The smallest number of byte-pair tokens: one for each of the 256 bytes, and one pair. */
const MIN_BYTE_PAIRS = 257;
/** The largest number of characters in a vocabulary. */
export const MAX_VOCABULARY_CHARACTERS = 4096;
/** The largest number of tokens: a token is stored in 16 bits. */
export const MAX_VOCABULARY_TOKENS = 65_536;
/**
 * The longest context is that of GPT-2. It is limited because the cost of attention grows with the
 * square of the context.
 */
const MAX_CONTEXT = 1024;
/**
 * The largest width and number of layers are those of GPT-2 XL. With this width, each layer has
 * about 31 M parameters. Large models need a pipeline.
 */
const MAX_WIDTH = 1600;
const MAX_LAYERS = 48;
/** The longest prompt, in characters. */
export const MAX_PROMPT_LENGTH = 200;

const count = (min: number, max: number) => v.pipe(v.number(), v.integer(), v.minValue(min), v.maxValue(max));

const characters = { tokens: 'characters', vocabulary: 512 } as const;

/**
 * A model of 56 k parameters, for tabs without a GPU. After a quarter of an hour on four tabs and
 * two cores, its loss is lower than the loss of a bigram model.
 */
const TINY = {
  ...characters,
  layers: 1,
  heads: 2,
  width: 64,
  context: 32,
  dropout: 0,
};

export const GPT_FIELDS = {
  layers: field(count(1, MAX_LAYERS), TINY.layers),
  /** Attention heads per layer. Each head has `width / heads` channels. */
  heads: field(count(1, 64), TINY.heads),
  /** Channels. */
  width: field(count(8, MAX_WIDTH), TINY.width),
  /**
   * Tokens in the context window. A sample has this many tokens; the label of each token is the
   * next token.
   */
  context: field(count(4, MAX_CONTEXT), TINY.context),
  /** Dropout rate in training. */
  dropout: field(v.pipe(v.number(), v.minValue(0), v.maxValue(0.9)), TINY.dropout),
  tokens: field(v.picklist(TOKEN_KINDS), TINY.tokens, {
    value: 'kind',
    help: 'kind of tokens of the job gpt (default: characters)',
  }),
  /**
   * Number of byte-pair tokens. The model's token matrix has this many rows, even if the text has
   * fewer pairs. With `characters`, the text determines the number of tokens.
   */
  vocabulary: field(count(MIN_BYTE_PAIRS, MAX_VOCABULARY_TOKENS), TINY.vocabulary, {
    value: 'n',
    help: 'number of byte-pair tokens',
  }),
  /** The start of the texts that are generated during training. */
  prompt: field(v.pipe(v.string(), v.maxLength(MAX_PROMPT_LENGTH)), '\n', {
    value: 'text',
    help: 'first characters of the texts that the job gpt generates',
  }),
};

export const GptModel = v.pipe(
  strictFieldsSchema(schemasOfFields(GPT_FIELDS)),
  v.check(({ width, heads }) => width % heads === 0, 'width must be a multiple of heads'),
);
export type GptModel = v.InferOutput<typeof GptModel>;

export const GPT_PRESET_NAMES = ['tiny', 'small', 'medium', 'large', 'gpt2'] as const;
export type GptPresetName = (typeof GPT_PRESET_NAMES)[number];

/** A model's size, with values of other fields that are good for this size. */
interface Preset {
  model: Omit<GptModel, 'prompt'>;
  batchSize: number;
  learningRate: number;
  /** The fields that divide the model among tabs; `null` if one tab can hold the whole model. */
  pipeline: { strategy: 'pipeline'; stages: number; recompute: boolean } | null;
}

/** The presets. Parameter counts are for 65 characters, as in Shakespeare's works. */
export const GPT_PRESETS: Record<GptPresetName, Preset> = {
  tiny: { model: TINY, batchSize: 8, learningRate: 0.005, pipeline: null },
  // 1.0 M
  small: {
    model: { ...characters, layers: 5, heads: 4, width: 128, context: 128, dropout: 0.1 },
    batchSize: 16,
    learningRate: 0.002,
    pipeline: null,
  },
  // 4.8 M
  medium: {
    model: { ...characters, layers: 6, heads: 8, width: 256, context: 128, dropout: 0.1 },
    batchSize: 16,
    learningRate: 0.001,
    pipeline: null,
  },
  // 10.7 M
  large: {
    model: { ...characters, layers: 6, heads: 6, width: 384, context: 256, dropout: 0.2 },
    batchSize: 16,
    learningRate: 0.001,
    pipeline: null,
  },
  // 124 M, the size of GPT-2. Weights, gradients and averages need 2 GB, so it needs a pipeline.
  // The batch is small, because a sample has 1024 tokens.
  gpt2: {
    model: {
      tokens: 'byte-pairs',
      vocabulary: 50_257,
      layers: 12,
      heads: 12,
      width: 768,
      context: 1024,
      dropout: 0.1,
    },
    batchSize: 1,
    learningRate: 0.0006,
    pipeline: { strategy: 'pipeline', stages: 4, recompute: true },
  },
};
