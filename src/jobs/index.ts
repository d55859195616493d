/** The built-in jobs: data, models, loss. */
import type { Dataset } from './dataset.ts';
import { DrawnDigits } from './digits.ts';
import { loadMnist } from './mnist.ts';
import { folderSource, pickedSource } from './source.ts';
import type { JobSpec } from '../protocol/job.ts';
import { UsageError } from '../util/errors.ts';

export { sampleLength, type Dataset } from './dataset.ts';
export { createCorpus, type Corpus, type Windows } from './gpt/corpus.ts';
export { loadText } from './gpt/loadText.ts';
export { dropoutPlaces, Network, type NetworkSize } from './gpt/network.ts';
export type { Tokenizer } from './gpt/tokenizer.ts';
export { Writer } from './gpt/writer.ts';
export { countCorrect, lossSum } from './loss.ts';
export { buildModel, type JobModel } from './models.ts';

export interface LoadDataOptions {
  /** For data of kind "files": what this tab's user picked. */
  files?: readonly File[];
  /** What a relative folder URL is relative to: the page's address. */
  baseUrl: string;
  signal?: AbortSignal;
}

/**
 * The images of a job that classifies some: drawn on demand, fetched, or read from the picked files.
 *
 * @throws DataError if files are missing, cannot be fetched or are of another format (the message says what to do);
 *   UsageError if the job's data is of a kind that the job does not have; whatever `signal` was aborted with.
 */
export async function loadData(
  job: Pick<JobSpec, 'job' | 'seed' | 'data'>,
  options: LoadDataOptions,
): Promise<{ train: Dataset; test: Dataset }> {
  const { data } = job;
  options.signal?.throwIfAborted();
  if ((job.job === 'digits') !== (data.kind === 'drawn')) {
    throw new UsageError(`The job ${job.job} has no data of kind "${data.kind}".`);
  }
  switch (data.kind) {
    case 'drawn':
      return { train: new DrawnDigits(job.seed, 'train'), test: new DrawnDigits(job.seed, 'test') };
    case 'url':
      return loadMnist(await folderSource(data.url, options.baseUrl, options.signal));
    case 'files':
      return loadMnist(pickedSource(options.files ?? []));
    case 'built-in':
    case 'none':
      throw new UsageError(`The job ${job.job} has no images to load.`);
    default:
      throw new UsageError(`There is no data of kind "${String(data satisfies never)}".`);
  }
}
