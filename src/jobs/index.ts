/** The built-in jobs: data, models, loss. */
import type { Dataset } from './dataset.ts';
import { SyntheticDigits } from './digits/digits.ts';
import { createCorpus } from './gpt/corpus.ts';
import { loadText } from './gpt/loadText.ts';
import { stretchOf } from './gpt/text.ts';
import { openImages, type ImagesJob } from './images/images.ts';
import { loadMnist } from './images/mnist.ts';
import { modelProblem } from './models/customLayers.ts';
import { fetchFiles, folderSource, pickedSource, type LoadDataOptions } from './fileSource.ts';
import { oneTable, Table, type TableJob } from './table/table.ts';
import { DEFAULT_JOB, readsFiles, type JobSpec } from '../spec/job.ts';
import type { Preview, TextPreview } from '../spec/preview.ts';
import { messageOf, UsageError } from '../util/errors.ts';

export { sampleLength, type Dataset, type Labels } from './dataset.ts';
export { createCorpus, type Corpus, type Windows } from './gpt/corpus.ts';
export { loadText } from './gpt/loadText.ts';
export { dropoutPlaces, Network, rowsFor } from './gpt/network.ts';
export type { Tokenizer } from './gpt/tokenizer.ts';
export { TokenSampler } from './gpt/tokenSampler.ts';
export { countAmongFirst, countConfusion, countCorrect } from './models/classificationCounts.ts';
export { lossSum, lossSumOf } from './models/loss.ts';
export { agreeOn, openShard, type SampleShard, type TextShard } from './federated.ts';
export { buildModel, type JobModel, type KeptModel } from './models/models.ts';
export {
  amountMetrics,
  amountSums,
  classMetrics,
  FIRST_CLASSES,
  type HeldOutMetrics,
} from './models/heldOutMetrics.ts';

/** Characters of a text that are shown. */
const BEGINNING = 300;

/** What loading data needs to know of a job; what only files are read by may be left out. */
type DataJob = Pick<JobSpec, 'job' | 'seed' | 'data'> & Partial<ImagesJob & TableJob>;

/**
 * The images of a job that classifies some: drawn on demand, fetched, or read from the picked
 * files.
 *
 * @throws DataError if files are missing, cannot be fetched or are of another format (the message
 *   says what to do); UsageError if the job's data is of a kind that the job does not have;
 *   whatever `signal` was aborted with.
 */
export async function loadData(job: DataJob, options: LoadDataOptions): Promise<{ train: Dataset; test: Dataset }> {
  const { data } = job;
  options.signal?.throwIfAborted();
  switch (data.kind) {
    case 'synthetic':
      if (job.job !== 'digits') break;
      return { train: new SyntheticDigits(job.seed, 'train'), test: new SyntheticDigits(job.seed, 'test') };
    case 'url':
      if (job.job === 'mnist') return loadMnist(await folderSource(data.url, options.baseUrl, options.signal));
      if (!readsFiles(job.job)) break;
      return loadFiles(job, await fetchFiles(data.url, options.baseUrl, options.signal));
    case 'files':
    case 'shared':
      if (job.job === 'mnist') return loadMnist(pickedSource(options.files ?? []));
      if (!readsFiles(job.job)) break;
      return loadFiles(job, options.files ?? []);
    case 'built-in':
    case 'none':
    // Loaded when ranks have agreed: `openShard`.
    case 'federated':
      break;
    default:
      throw new UsageError(`There is no data of kind "${String(data satisfies never)}".`);
  }
  throw new UsageError(`The job ${job.job} has no data of kind "${data.kind}".`);
}

async function loadFiles(job: DataJob, files: readonly File[]): Promise<{ train: Dataset; test: Dataset }> {
  const whole = { ...DEFAULT_JOB, ...job };
  return job.job === 'table'
    ? (await Table.open(oneTable(files), whole)).load()
    : (await openImages(files, whole)).load();
}

/**
 * What picked files hold, before anything is trained; and what is wrong with them, or with what the
 * job asks of them, and whether its model fits. A table whose target is wrong can be looked at all
 * the same.
 */
export async function inspectFiles(
  job: JobSpec,
  files: readonly File[],
): Promise<{ preview: Preview | null; problem: string | null }> {
  const isShard = job.data.kind === 'federated';
  try {
    if (job.job === 'gpt') return { preview: await inspectText(job, files), problem: null };
    if (job.job !== 'table') {
      const images = await openImages(files, job, { isShard });
      return { preview: images.preview, problem: isShard ? null : modelProblem(job.model, images.load().train) };
    }
    const table = await Table.open(oneTable(files), job);
    const problem = table.problem(isShard)?.message ?? (isShard ? null : modelProblem(job.model, table.samples));
    return { preview: table.preview, problem };
  } catch (error) {
    return { preview: null, problem: messageOf(error) };
  }
}

async function inspectText(job: JobSpec, files: readonly File[]): Promise<TextPreview> {
  const text = await loadText({ job: job.job, data: { kind: 'files' } }, { files, baseUrl: '' });
  const { tokenizer, train, test, characters } = await createCorpus(text, job.gpt);
  let beginning = '';
  for await (const piece of stretchOf(text, 0, BEGINNING)) beginning += piece;
  return {
    kind: 'gpt',
    characters,
    vocabulary: tokenizer.size,
    samples: train.size + test.size,
    heldOut: test.size,
    beginning,
  };
}
