/**
 * The preview of a tab's files before training, with notes about everything that is left out,
 * changed or guessed. It is small, however large the files are.
 */
import type { JobName, JobSpec } from './job.ts';
import { listInWords } from '../util/text.ts';
import type { TaskName } from './measures.ts';

/** Returns whether a job's files are previewed before training. */
export function jobHasPreview(job: JobName): boolean {
  return job === 'images' || job === 'table' || job === 'gpt';
}

/**
 * Returns the fields of a job that affect the preview, as text. If this text changes, the files
 * must be previewed again.
 */
export function previewInputsOf(job: JobSpec): string {
  const { data, model, loss, metrics, target, task, encoding, side, channels, augment, seed, gpt } = job;
  const asked = [model, loss, metrics, target, task, encoding, side, channels, augment, seed, gpt];
  return JSON.stringify([job.job, data.kind, ...asked]);
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
  /** The task; `null` if the target cannot be predicted. */
  task: TaskName | null;
  /** Classes of the target, for a classification. */
  classes: PreviewClass[];
  notes: readonly DataNote[];
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
  notes: readonly DataNote[];
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
  notes: readonly DataNote[];
}

export type DataPreview = TablePreview | ImagesPreview | TextPreview;

/**
 * Kinds of notes. Each has a sentence in {@link ENGLISH_DATA_NOTE_SENTENCES} and in the page's
 * languages.
 */
export const DATA_NOTE_KINDS = [
  'no-header',
  'row-names',
  'rows-unlabelled',
  'column-of-text',
  'column-empty',
  'numbers-as-words',
  'digits-as-words',
  'words-alike',
  'marker',
  'maybe-missing',
  'mark-guessed',
  'unit',
  'unit-missing',
  'notation',
  'class-above',
  'folders-merged',
  'files-ignored',
  'folder-hidden',
  'names-guessed',
  'pictures-undecoded',
  'folder-left-out',
  'class-not-held-out',
  'augmented',
  'utf-16',
  'sheets-left-out',
  'markup',
  'weights-left-out',
  'weights-rounded',
  'weights-normalization',
] as const;
export type DataNoteKind = (typeof DATA_NOTE_KINDS)[number];

/**
 * A note about data or weights: something that is left out, changed or guessed. It is shown before
 * a run.
 */
export interface DataNote {
  kind: DataNoteKind;
  /** Number of rows, values, files, pictures or arrays of weights to which the note applies. */
  count: number;
  /** The column, folder, class, array or kind of change that the note is about, or empty. */
  name: string;
  /** A field, file or type of numbers for which the note holds, or empty. */
  example: string;
}

type Sentence = (notes: readonly DataNote[]) => string;
export type DataNoteSentences = Readonly<Record<DataNoteKind, Sentence>>;

/** Maximum number of names that a sentence lists. */
const MOST_NAMED = 12;

/** Maximum number of characters of a field that a sentence quotes. */
const MOST_QUOTED = 40;

export function totalNoteCount(notes: readonly DataNote[]): number {
  return notes.reduce((sum, { count }) => sum + count, 0);
}

/**
 * Describes the first notes with `describe`.
 *
 * @returns the descriptions, and the number of notes that are not described.
 */
export function describeFirstNotes(
  notes: readonly DataNote[],
  describe: (note: DataNote) => string,
): { first: string[]; others: number } {
  return { first: notes.slice(0, MOST_NAMED).map(describe), others: Math.max(0, notes.length - MOST_NAMED) };
}

/** Returns a field in quotes, shortened if it is long. */
export function quoteFieldInSentence(field: string): string {
  return `“${field.length > MOST_QUOTED ? `${field.slice(0, MOST_QUOTED)}…` : field}”`;
}

/** Returns one sentence for each kind of note, in the order of {@link DATA_NOTE_KINDS}. */
export function sentencesOfNotes(
  notes: readonly DataNote[],
  sentences: DataNoteSentences = ENGLISH_DATA_NOTE_SENTENCES,
): string[] {
  return DATA_NOTE_KINDS.flatMap((kind) => {
    const same = notes.filter((note) => note.kind === kind);
    return same.length === 0 ? [] : [sentences[kind](same)];
  });
}

function named(notes: readonly DataNote[], describe: (note: DataNote) => string): string {
  const { first, others } = describeFirstNotes(notes, describe);
  return listInWords(others > 0 ? [...first, `${others} more`] : first);
}

function counted(count: number, one: string): string {
  return `${count} ${count === 1 ? one : `${one}s`}`;
}

function are(count: number): string {
  return count === 1 ? 'is' : 'are';
}

function withExample({ name, example }: DataNote): string {
  return example === '' ? name : `${name} (${quoteFieldInSentence(example)})`;
}

function withExampleIn({ name, count, example }: DataNote): string {
  return `${name} (${quoteFieldInSentence(example)}, ${counted(count, 'row')})`;
}

function inRows({ name, count, example }: DataNote): string {
  return `${quoteFieldInSentence(example)} in ${name} (${counted(count, 'row')})`;
}

/** The sentences in English, for the command line and the page. */
export const ENGLISH_DATA_NOTE_SENTENCES: DataNoteSentences = {
  'no-header': () => 'The first line is data, not names, so columns are numbered.',
  'row-names': ([note]) =>
    `The first field of each row, such as ${quoteFieldInSentence(note!.example)}, is left out, because the first line has no name for it.`,
  'rows-unlabelled': (notes) =>
    `${counted(totalNoteCount(notes), 'row')} ${are(totalNoteCount(notes))} left out, because the column to predict is ${named(
      notes,
      ({ example, count }) => `${example === '' ? 'empty' : quoteFieldInSentence(example)} in ${count}`,
    )}.`,
  'column-of-text': (notes) =>
    `${counted(notes.length, 'column')} ${are(notes.length)} left out (too many different words): ${named(notes, withExample)}.`,
  'column-empty': (notes) =>
    `${counted(notes.length, 'column')} ${are(notes.length)} left out (no values): ${named(notes, (note) => (note.example === '' ? note.name : withExampleIn(note)))}.`,
  'numbers-as-words': (notes) =>
    `Numbers are read as words, because other values of the column are words: ${named(notes, withExample)}.`,
  'digits-as-words': (notes) =>
    `Values with digits that are not plain numbers, such as dates, times and ranges, are read as words: ${named(notes, withExample)}.`,
  'words-alike': (notes) =>
    `Words that differ only in letter case, spaces or similar signs are read as different words: ${named(notes, withExample)}.`,
  'maybe-missing': (notes) =>
    `These values are read as numbers, but may stand for missing values: ${named(notes, inRows)}. If they do, leave the fields empty.`,
  'mark-guessed': (notes) =>
    `The decimal mark is guessed, because nothing in the file shows it: ${named(notes, withExample)}.`,
  marker: (notes) => `These values are read as missing: ${named(notes, inRows)}.`,
  unit: (notes) => `Numbers are read without their units: ${named(notes, withExample)}.`,
  'unit-missing': (notes) => `Values without a unit are read like those with a unit: ${named(notes, withExampleIn)}.`,
  notation: (notes) => `Numbers are read in another notation: ${named(notes, withExample)}.`,
  'class-above': (notes) =>
    `The class of a picture is the name of the folder above ${named(notes, ({ name, example }) => `${quoteFieldInSentence(name)}, as in ${example}`)}.`,
  'folders-merged': (notes) =>
    `Folders of the same name are one class: ${named(notes, ({ name, count, example }) => `${quoteFieldInSentence(name)} (${counted(count, 'folder')}, such as ${example})`)}.`,
  'files-ignored': (notes) =>
    `${counted(totalNoteCount(notes), 'file')} ${are(totalNoteCount(notes))} left out, because this job does not read their kind: ${named(notes, inFolder)}.`,
  'folder-hidden': (notes) =>
    `${counted(totalNoteCount(notes), 'file')} ${are(totalNoteCount(notes))} left out, because the folder is hidden: ${named(notes, inFolder)}. Rename the folder to use it.`,
  'names-guessed': (notes) =>
    `${counted(totalNoteCount(notes), 'name')} in the zip file ${are(totalNoteCount(notes))} not in UTF-8, and ${are(totalNoteCount(notes))} read as ${named(notes, withExample)}. If this is wrong, pack the files again with names in UTF-8, or rename the folders.`,
  'pictures-undecoded': (notes) =>
    `${counted(totalNoteCount(notes), 'picture')} ${are(totalNoteCount(notes))} left out (damaged, or in a format that this browser does not decode): ${named(notes, inFolder)}.`,
  'folder-left-out': (notes) =>
    `These pictures are left out because their folder is not a class: ${named(
      notes,
      ({ name, count }) => `${counted(count, 'picture')} ${name === '' ? 'outside the folders' : `in ${name}`}`,
    )}.`,
  'class-not-held-out': (notes) =>
    `${notes.length === 1 ? '1 class has' : `${notes.length} classes have`} no held-out samples, so ${notes.length === 1 ? 'it is' : 'they are'} not evaluated: ${named(
      notes,
      ({ name, count }) => `${quoteFieldInSentence(name)} (${counted(count, 'sample')})`,
    )}.`,
  augmented: (notes) =>
    `Each epoch changes the training pictures at random: ${named(notes, ({ name }) => name)}. Held-out pictures stay as they are.`,
  'sheets-left-out': ([note]) =>
    `Only the sheet ${quoteFieldInSentence(note!.name)} is read. Others are left out: ${note!.example}.`,
  'utf-16': (notes) =>
    `${counted(totalNoteCount(notes), 'text')} ${are(totalNoteCount(notes))} read as UTF-16: ${named(notes, ({ example }) => example)}.`,
  markup: (notes) =>
    `${counted(totalNoteCount(notes), 'text')} ${totalNoteCount(notes) === 1 ? 'is a page' : 'are pages'} of HTML or XML, and the model learns the tags, too: ${named(notes, ({ example }) => example)}. Export plain text to avoid this.`,
  'weights-left-out': (notes) =>
    `${counted(totalNoteCount(notes), 'array')} of the file of weights ${are(totalNoteCount(notes))} left out, because they are not weights of layers: ${named(
      notes,
      ({ name, count, example }) => `${name} (${example === '' ? counted(count, 'array') : example})`,
    )}.`,
  'weights-rounded': (notes) =>
    `${counted(totalNoteCount(notes), 'array')} of weights ${are(totalNoteCount(notes))} rounded from float64 to float32: ${named(notes, ({ name }) => name)}.`,
  'weights-normalization': (notes) =>
    `The model of the file normalizes its inputs by a mean and a variance, but this run does not: ${named(notes, ({ name }) => name)}. Normalize the samples in the same way.`,
};

function inFolder({ name, count, example }: DataNote): string {
  return `${count} ${name === '' ? 'outside of folders' : `in ${name}`} (${example})`;
}
