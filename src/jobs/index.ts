/** The built-in jobs: data, models and losses. */
import type { Dataset } from './dataset.ts';
import { SyntheticDigits } from './digits/digits.ts';
import { createCorpus, type Corpus } from './gpt/corpus.ts';
import { openTrainingText } from './gpt/openTrainingText.ts';
import type { TrainingText } from './gpt/text.ts';
import { openImages, type ImagesJob } from './images/images.ts';
import { loadMnist } from './images/mnist.ts';
import { modelProblem } from './models/customLayers.ts';
import { fetchFiles, webFolderSource, listFiles, pickedFileSource, type LoadDataOptions } from './fileSource.ts';
import { dataFileOf, type DataFile } from './dataFile.ts';
import { requireSingleFile, OpenedTable, type TableJob } from './table/table.ts';
import { fileKindOfName } from '../spec/dataFiles.ts';
import { DEFAULT_JOB, type JobSpec } from '../spec/job.ts';
import type { DataPreview, TextPreview } from '../spec/preview.ts';
import type { Vocabulary } from '../spec/vocabulary.ts';
import { errorMessageOf, UsageError } from '../util/errors.ts';

export { sampleLength, type Dataset, type LazyFileContents, type Labels } from './dataset.ts';
export { createAugmentation } from './images/augment.ts';
export { createCorpus, type Corpus, type TokenWindows } from './gpt/corpus.ts';
export { logitsOfHidden, gptNetworkLayers } from './gpt/layers.ts';
export { gptDropoutPlaceCount, GptNetwork } from './gpt/network.ts';
export { gptMultiplicationCounts, gptNetworkMemory, gptNetworkSize, paddedVocabularySize } from './gpt/shapes.ts';
export type { Tokenizer } from './gpt/tokenizer.ts';
export { embedToken, createTokenLayer, tokenLogits, type SingleTokenLayer } from './gpt/tokenLayers.ts';
export { createTokenForward, sampleTokens, type TokenForward } from './gpt/tokenSampler.ts';
export { countLabelsInTopK, countConfusion, countCorrect } from './models/classificationCounts.ts';
export { lossSumFunctionOf } from './models/loss.ts';
export { agreeOnShardFacts, openFederatedShard, type SampleShard, type TextShard } from './federated.ts';
export { layersOfChainModel } from './models/layerChain.ts';
export { buildJobModel, type JobModel, type SavableModel } from './models/models.ts';
export {
  extraRegressionMetrics,
  regressionSums,
  extraClassificationMetrics,
  TOP_CLASS_COUNT,
  type HeldOutMetrics,
} from './models/heldOutMetrics.ts';

/**
 * The fields of a job that are needed to load its data. Fields that only some kinds of data need
 * are optional.
 */
type DataJob = Pick<JobSpec, 'job' | 'seed' | 'data'> & Partial<ImagesJob & TableJob>;

/**
 * Loads the samples of a job. They are generated on demand, fetched, or read from the picked files.
 *
 * @throws (rejects) DataError if files are missing, cannot be fetched or have another format.
 *   UsageError if the job does not support its kind of data. If `signal` was aborted, throws its
 *   reason.
 */
export async function loadData(job: DataJob, options: LoadDataOptions): Promise<{ train: Dataset; test: Dataset }> {
  const { data } = job;
  options.signal?.throwIfAborted();
  switch (data.kind) {
    case 'synthetic':
      if (job.job !== 'digits') break;
      return { train: new SyntheticDigits(job.seed, 'train'), test: new SyntheticDigits(job.seed, 'test') };
    case 'url':
      if (job.job === 'mnist') return loadMnist(await webFolderSource(data.url, options));
      if (job.job === 'images') {
        return loadImages(job, await listFiles(data.url, options, (name) => fileKindOfName(name) !== 'text'), options);
      }
      if (job.job !== 'table') break;
      return loadTable(job, await fetchFiles(data.url, options, (name) => fileKindOfName(name) !== 'text'), options);
    case 'files':
    case 'shared':
      if (job.job === 'mnist') return loadMnist(pickedFileSource(options.files ?? []));
      if (job.job === 'images') {
        return loadImages(job, options.shared ?? (options.files ?? []).map(dataFileOf), options);
      }
      if (job.job !== 'table') break;
      return loadTable(job, options.files ?? [], options);
    case 'built-in':
    case 'none':
    // Federated data is loaded by `openFederatedShard`, after the ranks have agreed on its facts.
    case 'federated':
      break;
    default:
      throw new UsageError(`Unknown kind of data: "${String(data satisfies never)}".`);
  }
  throw new UsageError(`The job ${job.job} does not support data of kind "${data.kind}".`);
}

async function loadTable(
  job: DataJob,
  files: readonly File[],
  { onpreview, onprogress }: LoadDataOptions,
): Promise<{ train: Dataset; test: Dataset }> {
  const table = await OpenedTable.open(requireSingleFile(files), { ...DEFAULT_JOB, ...job }, onprogress);
  onpreview?.(table.preview);
  return table.load();
}

async function loadImages(
  job: DataJob,
  files: readonly DataFile[],
  { onpreview, onundecoded }: LoadDataOptions,
): Promise<{ train: Dataset; test: Dataset }> {
  const images = await openImages(files, { ...DEFAULT_JOB, ...job }, { onundecoded });
  onpreview?.(images.preview);
  return images.load();
}

/**
 * Loads the text of a language model.
 *
 * @param vocabulary see {@link createCorpus}.
 * @throws (rejects) DataError if the text is missing or invalid.
 */
export async function loadCorpus(
  job: Pick<JobSpec, 'job' | 'data' | 'gpt'> & Partial<Pick<JobSpec, 'encoding'>>,
  options: LoadDataOptions,
  vocabulary: Vocabulary | null = null,
): Promise<Corpus> {
  const text = await openTrainingText(job, options);
  const corpus = await createCorpus(text, job.gpt, vocabulary, options.onprogress);
  options.onpreview?.(previewOf(text, corpus));
  return corpus;
}

/**
 * Returns a preview of picked files before a run. `problem` says what is wrong with the files, the
 * job's fields or its model; it is `null` if nothing is wrong. A table has a preview even if its
 * target is wrong.
 */
export async function previewFiles(
  job: JobSpec,
  files: readonly File[],
  onprogress?: LoadDataOptions['onprogress'],
): Promise<{ preview: DataPreview | null; problem: string | null }> {
  const isShard = job.data.kind === 'federated';
  try {
    if (job.job === 'gpt') {
      const { encoding } = job;
      const text = await openTrainingText({ job: job.job, data: { kind: 'files' }, encoding }, { files, baseUrl: '' });
      return { preview: previewOf(text, await createCorpus(text, job.gpt, null, onprogress)), problem: null };
    }
    if (job.job !== 'table') {
      const images = await openImages(files.map(dataFileOf), job, { isShard });
      return { preview: images.preview, problem: isShard ? null : modelProblem(job.model, images.load().train) };
    }
    const table = await OpenedTable.open(requireSingleFile(files), job, onprogress);
    const problem = table.problem(isShard)?.message ?? (isShard ? null : modelProblem(job.model, table.samples));
    return { preview: table.preview, problem };
  } catch (error) {
    return { preview: null, problem: errorMessageOf(error) };
  }
}

function previewOf({ notes }: TrainingText, { tokenizer, train, test, characters, beginning }: Corpus): TextPreview {
  return {
    kind: 'gpt',
    characters,
    vocabulary: tokenizer.size,
    samples: train.size + test.size,
    heldOut: test.size,
    beginning,
    notes,
  };
}
