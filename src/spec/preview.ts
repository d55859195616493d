/** The preview of a tab's files before training. It is small, however large the files are. */
import type { JobName, JobSpec } from './job.ts';
import type { TaskName } from './measures.ts';

/** Returns whether a job's files are previewed before training. */
export function hasPreview(job: JobName): boolean {
  return job === 'images' || job === 'table' || job === 'gpt';
}

/**
 * Returns the fields of a job that affect the preview, as text. If this text changes, the files
 * must be previewed again.
 */
export function demandsOf(job: JobSpec): string {
  const { data, model, loss, metrics, target, task, side, channels, seed, gpt } = job;
  return JSON.stringify([job.job, data.kind, model, loss, metrics, target, task, side, channels, seed, gpt]);
}

/**
 * Kinds of columns. `category`: few distinct words. `text`: words that differ from row to row.
 * `empty`: no values.
 */
export const COLUMN_KINDS = ['number', 'category', 'text', 'empty'] as const;
export type ColumnKind = (typeof COLUMN_KINDS)[number];

/** The decimal mark of numbers. */
export const DECIMAL_MARKS = ['point', 'comma'] as const;
export type DecimalMark = (typeof DECIMAL_MARKS)[number];

export interface PreviewColumn {
  name: string;
  kind: ColumnKind;
  /** The decimal mark of the column's numbers; `null` if no number contains a mark. */
  mark: DecimalMark | null;
  /** Rows without a value. */
  missing: number;
  /** Number of distinct values; `null` if there are too many to count. */
  distinct: number | null;
}

export interface PreviewClass {
  name: string;
  /** Number of samples, including held-out ones. */
  count: number;
}

/** A sample as a picture. */
export interface PreviewPicture {
  /** Pixels of shape [height, width, channels], 0 .. 255. A picture with one channel is grey. */
  pixels: Uint8Array;
  height: number;
  width: number;
  channels: number;
  label: string;
}

export interface TablePreview {
  kind: 'table';
  rows: number;
  /** Whether the first line contains column names. Otherwise columns are numbered. */
  hasHeader: boolean;
  columns: PreviewColumn[];
  /** The first rows' fields. */
  sample: string[][];
  /** The target column: the column that the job names, or the last column. */
  target: string;
  /**
   * Rows that are left out because their target value is missing: the number of these rows for each
   * text that stands for a missing value.
   */
  unlabelled: { field: string; rows: number }[];
  /** The task; `null` if the target cannot be predicted. */
  task: TaskName | null;
  /** Classes of the target, for a classification. */
  classes: PreviewClass[];
}

export interface ImagesPreview {
  kind: 'images';
  /** Number of samples for training and for evaluation together. */
  samples: number;
  heldOut: number;
  /** Shape of a sample: [height, width, channels], or [1, 1, numbers]. */
  shape: readonly [number, number, number];
  classes: PreviewClass[];
  pictures: PreviewPicture[];
  /** Number of files that are not pictures. */
  ignored: number;
  /** Folders with pictures that have no class. */
  leftOut: readonly FolderCount[];
}

export interface FolderCount {
  /** Path of the folder; empty at the top. */
  folder: string;
  pictures: number;
}

export interface TextPreview {
  kind: 'gpt';
  characters: number;
  /** Number of distinct tokens. */
  vocabulary: number;
  /**
   * Number of samples for training and for evaluation together. A sample has as many tokens as the
   * model's context.
   */
  samples: number;
  heldOut: number;
  beginning: string;
}

export type Preview = TablePreview | ImagesPreview | TextPreview;
