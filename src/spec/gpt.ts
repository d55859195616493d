/**
 * The sizes of a language model, and what it writes in: part of a job. Presets are names for
 * people; a job has the numbers.
 */
import * as v from 'valibot';
import { field, fieldsOf, schemasOf } from './fields.ts';

/**
 * `characters`: one for each that the text has. `byte-pairs`: bytes, and pairs that the text has
 * often, made one token.
 */
export const TOKEN_KINDS = ['characters', 'byte-pairs'] as const;
export type TokenKind = (typeof TOKEN_KINDS)[number];

/** Byte pairs begin with every byte, and have at least one pair. */
const MIN_BYTE_PAIRS = 257;
/** Output and input layers hold a row for each, and compute with all of them at every place. */
export const MAX_VOCABULARY = 4096;
/** Attention computes with the square of it. */
const MAX_CONTEXT = 512;
/** Some 50 M parameters with {@link MAX_LAYERS}: their gradient has 200 MB. */
const MAX_WIDTH = 1024;
const MAX_LAYERS = 24;
/** Characters of a prompt. */
export const MAX_PROMPT = 200;

const count = (min: number, max: number) => v.pipe(v.number(), v.integer(), v.minValue(min), v.maxValue(max));

const characters = { tokens: 'characters', vocabulary: 512 } as const;

/**
 * 56 k parameters, for tabs without a GPU: four of them on two cores learn more than bigrams in a
 * quarter of an hour.
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
  /** Of attention, in each layer; each sees `width / heads` channels. */
  heads: field(count(1, 64), TINY.heads),
  /** Channels. */
  width: field(count(8, MAX_WIDTH), TINY.width),
  /** Tokens that it sees at once: a sample is so many, and the one behind each. */
  context: field(count(4, MAX_CONTEXT), TINY.context),
  /** Share of the channels of a sample that are left out at a time while it learns. */
  dropout: field(v.pipe(v.number(), v.minValue(0), v.maxValue(0.9)), TINY.dropout),
  tokens: field(v.picklist(TOKEN_KINDS), TINY.tokens, {
    value: 'kind',
    help: 'what the job gpt writes in (default: characters)',
  }),
  /** Tokens, where they are byte pairs; characters are as many as the text has. */
  vocabulary: field(count(MIN_BYTE_PAIRS, MAX_VOCABULARY), TINY.vocabulary, {
    value: 'n',
    help: 'how many byte pairs there are',
  }),
  /** What the samples that it writes while it learns begin with. */
  prompt: field(v.pipe(v.string(), v.maxLength(MAX_PROMPT)), '\n', {
    value: 'text',
    help: 'what the samples of the job gpt begin with',
  }),
};

export const GptModel = v.pipe(
  fieldsOf(schemasOf(GPT_FIELDS)),
  v.check(({ width, heads }) => width % heads === 0, 'width must be a multiple of heads, which share its channels'),
);
export type GptModel = v.InferOutput<typeof GptModel>;

export const PRESET_NAMES = ['tiny', 'small', 'medium', 'large'] as const;
export type PresetName = (typeof PRESET_NAMES)[number];

/** A model's size, and the batch and rate that train it well. */
interface Preset {
  model: Omit<GptModel, 'prompt'>;
  batchSize: number;
  learningRate: number;
}

/** Parameters are for 65 characters, as Shakespeare has them. */
export const PRESETS: Record<PresetName, Preset> = {
  tiny: { model: TINY, batchSize: 8, learningRate: 0.005 },
  // 1.0 M
  small: {
    model: { ...characters, layers: 5, heads: 4, width: 128, context: 128, dropout: 0.1 },
    batchSize: 16,
    learningRate: 0.002,
  },
  // 4.8 M
  medium: {
    model: { ...characters, layers: 6, heads: 8, width: 256, context: 128, dropout: 0.1 },
    batchSize: 16,
    learningRate: 0.001,
  },
  // 10.7 M
  large: {
    model: { ...characters, layers: 6, heads: 6, width: 384, context: 256, dropout: 0.2 },
    batchSize: 16,
    learningRate: 0.001,
  },
};
