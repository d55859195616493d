/**
 * What is known of data beside their samples: of a table its columns' names, the different words of
 * columns that have few, and mean and deviation of those of numbers; of images their shape and the
 * classes' names; of a text which characters it has. A model's file keeps it, as it says what
 * inputs and outputs mean. Where each tab has its own data, it is all that leaves a tab beside
 * gradients; put together of all tabs it is what all go by, and a checkpoint keeps it.
 */
import * as v from 'valibot';
import { TASK_NAMES } from './measures.ts';
import { COLUMN_KINDS, DECIMAL_MARKS } from './preview.ts';

/**
 * Fewer rows or samples are refused where each tab has its own: what is told of them would tell of
 * single ones.
 */
export const LEAST_OWN_SAMPLES = 10;

const count = v.pipe(v.number(), v.integer(), v.minValue(0));

const Moments = v.strictObject({
  count,
  mean: v.number(),
  /** Squared distances from the mean, summed. */
  squares: v.number(),
});
export type Moments = v.InferOutput<typeof Moments>;

const ColumnFacts = v.strictObject({
  name: v.string(),
  kind: v.picklist(COLUMN_KINDS),
  /** The decimal mark that its numbers are read with; `null`: they have no marks. */
  mark: v.nullable(v.picklist(DECIMAL_MARKS)),
  /**
   * Different values, in the order of their code units: of a category those of training rows, of a
   * target that is a class all. `null`: not told.
   */
  values: v.nullable(v.array(v.string())),
  /** Whether a training row has none. */
  isMissing: v.boolean(),
  /** Of numbers: of the training rows. */
  moments: Moments,
});
export type ColumnFacts = v.InferOutput<typeof ColumnFacts>;

const TableFacts = v.strictObject({
  kind: v.literal('table'),
  columns: v.array(ColumnFacts),
  /** The column to predict. */
  target: v.string(),
  /** What its values suggest, or the job says; `null`: neither. */
  task: v.nullable(v.picklist(TASK_NAMES)),
});
export type TableFacts = v.InferOutput<typeof TableFacts>;

const ImagesFacts = v.strictObject({
  kind: v.literal('images'),
  /** Of one sample: [height, width, channels], or [1, 1, numbers]. */
  shape: v.pipe(v.tuple([count, count, count]), v.readonly()),
  /**
   * Whether classes are numbers, as arrays have them, or names of folders; they are in that order.
   */
  isNumbered: v.boolean(),
  classes: v.array(v.string()),
  /** Classes that only held-out samples have, where files say which these are. */
  untrained: v.array(v.string()),
  /** Of samples that are no bytes: of training samples, by feature or over whole images. */
  moments: v.nullable(v.array(Moments)),
});
export type ImagesFacts = v.InferOutput<typeof ImagesFacts>;

const TextFacts = v.strictObject({
  kind: v.literal('text'),
  /** Each that there is, in the order of their codes. */
  characters: v.string(),
  /** Of the held-out characters of each text: how well a bigram model of it tells them. */
  bigram: v.strictObject({ characters: count, loss: v.number() }),
});
export type TextFacts = v.InferOutput<typeof TextFacts>;

/** Facts of labelled samples. */
export const SampleFacts = v.variant('kind', [TableFacts, ImagesFacts]);
export type SampleFacts = v.InferOutput<typeof SampleFacts>;

export const ShardFacts = v.variant('kind', [TableFacts, ImagesFacts, TextFacts]);
export type ShardFacts = v.InferOutput<typeof ShardFacts>;
