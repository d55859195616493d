/**
 * Facts of data: what is known about a data set without its samples. For tables: the columns'
 * names, the distinct words of categories, mean and deviation of numbers. For images: shape and
 * class names. For texts: the characters. Model files store the facts, because they define the
 * meaning of inputs and outputs. With federated data, samples never leave their tab. Tabs exchange
 * facts and results of training, such as gradients. All ranks use the merged facts, and checkpoints
 * store the merged facts.
 */
import * as v from 'valibot';
import { TASK_NAMES } from './measures.ts';
import { COLUMN_KINDS, DECIMAL_MARKS } from './preview.ts';

/**
 * The smallest number of labelled rows or samples that a tab may have with federated data. Facts
 * about fewer samples would reveal individual samples.
 */
export const LEAST_OWN_SAMPLES = 10;

const count = v.pipe(v.number(), v.integer(), v.minValue(0));

const Moments = v.strictObject({
  count,
  mean: v.number(),
  /** Sum of squared distances from the mean. */
  squares: v.number(),
});
export type Moments = v.InferOutput<typeof Moments>;

const ColumnFacts = v.strictObject({
  name: v.string(),
  kind: v.picklist(COLUMN_KINDS),
  /** The decimal mark of the column's numbers; `null` if no number contains a mark. */
  mark: v.nullable(v.picklist(DECIMAL_MARKS)),
  /** The unit of the column's numbers, as written; missing if they have none. */
  unit: v.exactOptional(v.string()),
  /**
   * For a category, the words in training rows. For a target with classes, the classes in all rows.
   * Both are sorted by code units. `null` for other columns, or if there are too many values.
   */
  values: v.nullable(v.array(v.string())),
  /** Whether at least one training row has no value in this column. */
  isMissing: v.boolean(),
  /** Moments of the numbers in training rows. */
  moments: Moments,
});
export type ColumnFacts = v.InferOutput<typeof ColumnFacts>;

const TableFacts = v.strictObject({
  kind: v.literal('table'),
  columns: v.array(ColumnFacts),
  /** The column to predict. */
  target: v.string(),
  /** The job's task, or the task that the values suggest; `null` if neither is known. */
  task: v.nullable(v.picklist(TASK_NAMES)),
});
export type TableFacts = v.InferOutput<typeof TableFacts>;

const ImagesFacts = v.strictObject({
  kind: v.literal('images'),
  /** Shape of a sample: [height, width, channels], or [1, 1, numbers]. */
  shape: v.pipe(v.tuple([count, count, count]), v.readonly()),
  /**
   * Whether class names are numbers (if the files contain arrays) or names of folders. `classes` is
   * sorted by number or by name.
   */
  isNumbered: v.boolean(),
  classes: v.array(v.string()),
  /**
   * Classes that occur only in held-out samples. There may be such classes if the files define the
   * split.
   */
  untrained: v.array(v.string()),
  /**
   * Moments of the training samples, per feature or over whole images; `null` if samples are bytes.
   */
  moments: v.nullable(v.array(Moments)),
});
export type ImagesFacts = v.InferOutput<typeof ImagesFacts>;

const TextFacts = v.strictObject({
  kind: v.literal('text'),
  /** The distinct characters in code point order. */
  characters: v.string(),
  /**
   * Number of held-out characters, and the mean loss of bigram models on these characters. Each tab
   * has its own bigram model.
   */
  bigram: v.strictObject({ characters: count, loss: v.number() }),
});
export type TextFacts = v.InferOutput<typeof TextFacts>;

export const SampleFacts = v.variant('kind', [TableFacts, ImagesFacts]);
export type SampleFacts = v.InferOutput<typeof SampleFacts>;

export const ShardFacts = v.variant('kind', [TableFacts, ImagesFacts, TextFacts]);
export type ShardFacts = v.InferOutput<typeof ShardFacts>;
