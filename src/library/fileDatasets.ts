/** Datasets of chosen files: the samples that the jobs `images` and `table` train on. */
import type { Dataset } from '../jobs/dataset.ts';
import type { LoadDataOptions } from '../jobs/fileSource.ts';
import { openImages } from '../jobs/images/images.ts';
import { dataFileOf } from '../jobs/dataFile.ts';
import { isParquetFile, OpenedTable } from '../jobs/table/table.ts';
import { parseJobOrProblem, type JobSpec } from '../spec/job.ts';
import { fieldProblemSentence } from '../spec/fields.ts';
import { sentencesOfNotes, type DataNote } from '../spec/preview.ts';
import { DataError, UsageError } from '../util/errors.ts';

/** All samples of files. Ranks with the same files have equal datasets, with the same `digest`. */
export interface FileDataset extends Dataset {
  /** The samples for training. */
  readonly train: Dataset;
  /**
   * The held-out samples: those of folders such as `test` or `val`. If there are no such folders,
   * about a fifth of each class.
   */
  readonly test: Dataset;
  /** Sentences about everything in the files that is left out, changed or guessed. */
  readonly notes: readonly string[];
}

/** Options with the names and defaults of a job's fields. */
export interface ImageFolderOptions extends Partial<Pick<JobSpec, 'side' | 'channels' | 'seed'>> {
  /**
   * Called once for each picture that cannot be decoded, with the reason. Batches then leave it
   * out. By default, such a picture ends the iteration with a DataError, unless it was found when
   * the folder was opened: `notes` then name it, and batches leave it out.
   */
  onundecoded?: (problem: string) => void;
}

/** Options with the names and defaults of a job's fields. */
export interface TableOptions extends Partial<Pick<JobSpec, 'target' | 'task' | 'encoding' | 'seed'>> {
  /** Receives the number of bytes that have been read. */
  onprogress?: NonNullable<LoadDataOptions['onprogress']>;
}

/**
 * Opens pictures in folders, or in a zip file. The name of a picture's folder is its class. Classes
 * are numbered in the order of their sorted names (torchvision: `ImageFolder`).
 *
 * The pictures are cut to a square and scaled to `side` x `side` pixels, from 0 to 1. A DataLoader
 * has them read and decoded in workers, ahead of the loop, and keeps decoded pictures.
 *
 * @param files the files of an input element with the attribute `webkitdirectory`, or files with
 *   their paths.
 * @throws (rejects) DataError, which names the file, if the files cannot be used. UsageError if an
 *   option is invalid.
 *
 * @example
 * ```ts
 * const input = document.querySelector<HTMLInputElement>('input[webkitdirectory]')!;
 * const { train } = await imageFolder(input.files!, { side: 64 });
 * const { rank, worldSize } = group;
 * const sampler = new DistributedSampler(train.size, { numReplicas: worldSize, rank });
 * for await (const { xs, ys } of new DataLoader(train, { sampler, batchSize: 32 })) {
 *   tf.dispose([xs, ys]); // after a step with them
 * }
 * ```
 */
export async function imageFolder(
  files: Iterable<File | { path: string; file: File }>,
  { onundecoded, ...fields }: ImageFolderOptions = {},
): Promise<FileDataset> {
  const job = jobOf('imageFolder', { ...fields, job: 'images' });
  const given = Array.from(files, (one) => {
    const { path, file } = 'file' in one ? one : { path: one.webkitRelativePath || one.name, file: one };
    return { ...dataFileOf(file), path };
  });
  let isOpen = false;
  const endIteration = (problem: string): void => {
    if (isOpen) throw new DataError(problem);
  };
  const images = await openImages(given, job, { onundecoded: onundecoded ?? endIteration });
  isOpen = true;
  const { all, train, test } = images.load();
  if (all === null) {
    throw new DataError(
      `${given[0]!.path} has arrays, not pictures in folders. Load it as data of the job images: loadData(job, { files }).`,
    );
  }
  return withParts(all, train, test, images.preview.notes);
}

/**
 * Opens a table: a CSV file, a Parquet file, or the first sheet of an Excel workbook. Numbers are
 * standardized over the training rows, each word of a category becomes an input, and rows without a
 * target are left out.
 *
 * @param options `target`: the column to predict; default: the last one.
 * @throws (rejects) DataError, which names the file and the line or row, if the table cannot be
 *   used. UsageError if an option is invalid.
 *
 * @example
 * ```ts
 * const rows = ['size,colour,kind', '3,red,a', '5,blue,b', '4,red,a', '6,blue,b'];
 * const things = await table(new File([rows.join('\n')], 'things.csv'), { target: 'kind' });
 * const sampler = new ElasticSampler(things.size);
 * for await (const { xs, ys } of new DataLoader(things, { sampler, batchSize: 2 })) {
 *   console.log(xs.shape, things.classNames![ys.dataSync()[0]!]);
 *   tf.dispose([xs, ys]);
 * }
 * ```
 */
export async function table(file: File, { onprogress, ...fields }: TableOptions = {}): Promise<FileDataset> {
  const opened = await OpenedTable.open(file, jobOf('table', { ...fields, job: 'table' }), onprogress);
  const { all, train, test } = await opened.load();
  return withParts(all, train, test, opened.preview.notes);
}

/** Opens a Parquet file like {@link table}, and rejects files of other formats. */
export async function parquet(file: File, options: Omit<TableOptions, 'encoding'> = {}): Promise<FileDataset> {
  if (await isParquetFile(file)) return table(file, options);
  throw new DataError(
    `${file.name} is not a Parquet file: it does not begin and end with PAR1. Open CSV files and workbooks with table(file).`,
  );
}

function withParts(all: Dataset, train: Dataset, test: Dataset, notes: readonly DataNote[]): FileDataset {
  return Object.assign(all, { train, test, notes: sentencesOfNotes(notes) });
}

function jobOf(caller: string, fields: Partial<JobSpec>): JobSpec {
  const checked = parseJobOrProblem({ ...fields, data: { kind: 'files' } });
  if ('job' in checked) return checked.job;
  throw new UsageError(`The options of ${caller} are not valid: ${fieldProblemSentence(checked.problem)}.`);
}
