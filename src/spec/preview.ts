/** What a tab's files hold, told before anything is trained: small, however large they are. */
import type { JobName, JobSpec } from './job.ts';
import type { TaskName } from './measures.ts';

/** Jobs whose files are looked into before they are trained on. */
export function hasPreview(job: JobName): boolean {
  return job === 'images' || job === 'table' || job === 'gpt';
}

/**
 * All that a job asks of files that tabs bring: where it is another, files have to be looked into
 * anew.
 */
export function demandsOf(job: JobSpec): string {
  const { data, model, loss, metrics, target, task, side, channels, seed, gpt } = job;
  return JSON.stringify([job.job, data.kind, model, loss, metrics, target, task, side, channels, seed, gpt]);
}

/**
 * What a column holds: numbers, a few different words, words that differ from row to row, nothing.
 */
export const COLUMN_KINDS = ['number', 'category', 'text', 'empty'] as const;
export type ColumnKind = (typeof COLUMN_KINDS)[number];

/** The mark before a number's fraction. */
export const DECIMAL_MARKS = ['point', 'comma'] as const;
export type DecimalMark = (typeof DECIMAL_MARKS)[number];

export interface PreviewColumn {
  name: string;
  kind: ColumnKind;
  /** The decimal mark that its numbers are read with; `null`: they have no marks. */
  mark: DecimalMark | null;
  /** Rows without a value. */
  missing: number;
  /** Different values; `null`: more than were counted. */
  distinct: number | null;
}

export interface PreviewClass {
  name: string;
  /** Samples, held-out ones too. */
  count: number;
}

/** A sample that can be looked at. */
export interface PreviewPicture {
  /** [height, width, channels], 0 .. 255; one channel is grey. */
  pixels: Uint8Array;
  height: number;
  width: number;
  channels: number;
  label: string;
}

export interface TablePreview {
  kind: 'table';
  rows: number;
  /** Whether the first line is names. Where it is data, columns are numbered. */
  hasHeader: boolean;
  columns: PreviewColumn[];
  /** The first rows' fields. */
  sample: string[][];
  /** The column to predict, as the job says, else the last. */
  target: string;
  /** Rows that are left out, as they have nothing to predict: by what stands there. */
  unlabelled: { field: string; rows: number }[];
  /** `null` where the target cannot be predicted. */
  task: TaskName | null;
  /** Of a target that is a class. */
  classes: PreviewClass[];
}

export interface ImagesPreview {
  kind: 'images';
  /** To train and to test on. */
  samples: number;
  heldOut: number;
  /** Of one sample: [height, width, channels], or [1, 1, numbers]. */
  shape: readonly [number, number, number];
  classes: PreviewClass[];
  pictures: PreviewPicture[];
  /** Files that are no pictures. */
  ignored: number;
  /** Pictures without a class. */
  leftOut: readonly FolderCount[];
}

export interface FolderCount {
  /** With those above it; empty at the top. */
  folder: string;
  pictures: number;
}

export interface TextPreview {
  kind: 'gpt';
  characters: number;
  /** Different tokens. */
  vocabulary: number;
  /** Samples to train and to test on: stretches of as many tokens as the model sees at once. */
  samples: number;
  heldOut: number;
  beginning: string;
}

export type Preview = TablePreview | ImagesPreview | TextPreview;
