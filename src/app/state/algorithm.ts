/**
 * The all-reduce algorithm of a room: the page's default, whether the tabs can run the algorithm,
 * and the time that `auto` would save; pure.
 */
import { codecByName, encodedBytes } from '../../collectives/codecs.ts';
import { autoAlgorithm, expectedAllReduceMs } from '../../collectives/plans/algorithms.ts';
import { paddedVocabularySize, gptWeightShapes } from '../../jobs/gpt/shapes.ts';
import { createFlatLayout } from '../../parallel/flat/buckets.ts';
import {
  ALGORITHM_NAMES,
  ALL_REDUCE_NAMES,
  whyAlgorithmCannotRun,
  type AlgorithmName,
  type AllReduceName,
} from '../../spec/algorithms.ts';
import { DEFAULT_JOB, isCollectiveCodec, STRATEGIES, type JobSpec } from '../../spec/job.ts';
import { BUILT_IN_IMAGE_SIDE } from '../../spec/inspection.ts';
import { codecEncodesHops, codecFitsAlgorithm } from '../../spec/plan.ts';
import { layerRowsOf } from '../../spec/topology.ts';
import { elementCountOf } from '../../util/shape.ts';
import { uiMessages } from '../locales/index.ts';

/**
 * Fields of a job whose default on the page differs from the default in the library and in `run`.
 * People open a room on the page to watch a ring, so the page uses the ring for every world size.
 */
export const PAGE_JOB_DEFAULTS = { algorithm: 'ring' } as const satisfies Partial<JobSpec>;

/** The job of a room that is opened on the page without any settings. */
export const DEFAULT_PAGE_JOB: JobSpec = { ...DEFAULT_JOB, ...PAGE_JOB_DEFAULTS };

/** Returns the names of the algorithms for a form, in the order of the job's field. */
export function algorithmNamesForForm(): Record<AlgorithmName, string> {
  const { algorithms } = uiMessages.value.job;
  return Object.fromEntries(ALGORITHM_NAMES.map((name) => [name, algorithms[name]])) as Record<AlgorithmName, string>;
}

/**
 * Returns a sentence that says why `n` tabs cannot run the job's algorithm; `null` if they can, or
 * if the strategy has no all-reduce.
 */
export function algorithmProblem(job: Pick<JobSpec, 'algorithm' | 'codec' | 'strategy'>, n: number): string | null {
  const { algorithmProblems } = uiMessages.value.job;
  const { algorithm, strategy } = job;
  if (!STRATEGIES[strategy].hasAllReduces) return null;
  if (!codecFitsAlgorithm(job)) return algorithmProblems.codec;
  return whyAlgorithmCannotRun(algorithm, n) === null ? null : algorithmProblems.groups(n);
}

/**
 * The number of different characters in a usual text. The vocabulary of a language model has one
 * token for each of them.
 */
export const TYPICAL_CHARACTER_COUNT = 65;
const CNN_PARAMETERS = 11_274;
const CLASSES = 10;

/**
 * Returns the number of elements of each parameter, in the order of the forward pass; `null` if it
 * depends on people's files. All parameters of a cnn are counted as one parameter, and so are all
 * parameters of a custom layer, because the largest of them decides where a bucket ends.
 */
function parameterSizes({ job, model, hidden, gpt }: JobSpec): number[] | null {
  if (job === 'lesson') return null;
  if (job === 'gpt') {
    const vocabulary = paddedVocabularySize(gpt.tokens === 'characters' ? TYPICAL_CHARACTER_COUNT : gpt.vocabulary);
    return gptWeightShapes({ ...gpt, vocabulary }).map(elementCountOf);
  }
  if (typeof model !== 'string')
    return layerRowsOf(model).flatMap(({ parameters }) => (parameters > 0 ? [parameters] : []));
  if (job === 'images' || job === 'table') return null;
  return model === 'cnn' ? [CNN_PARAMETERS] : [BUILT_IN_IMAGE_SIDE ** 2 * hidden, hidden, hidden * CLASSES, CLASSES];
}

/**
 * Returns the number of bytes of each bucket of a gradient; `null` if it is not known before a run.
 * With the codec `auto`, or a codec that replaces the gradient, buckets are assumed to be float32.
 */
export function bucketBytesOf(job: JobSpec): number[] | null {
  const sizes = parameterSizes(job);
  const codec = isCollectiveCodec(job.codec) ? codecByName(job.codec) : null;
  return sizes && createFlatLayout(sizes).buckets.map(({ start, end }) => encodedBytes(codec, end - start));
}

/** Returns the algorithm with which `auto` sends the largest part of the buckets' bytes. */
export function mainAutoAlgorithm(n: number, bucketBytes: readonly number[], isEncoded: boolean): AllReduceName {
  const chosen = bucketBytes.map((bytes) => ({ bytes, name: autoAlgorithm(n, bytes, isEncoded) }));
  const bytesBy = (name: AllReduceName): number =>
    chosen.reduce((sum, one) => sum + (one.name === name ? one.bytes : 0), 0);
  return ALL_REDUCE_NAMES.toSorted((a, b) => bytesBy(b) - bytesBy(a))[0]!;
}

/**
 * Returns a sentence that compares `auto` with the ring for `n` tabs, from the cost model. Returns
 * `null` if there is nothing to choose: the host chose another algorithm, the size of the gradient
 * is not known, or both use the ring.
 */
export function describeAutoAlgorithmGain(job: JobSpec, n: number): string | null {
  const { algorithm, codec, strategy } = job;
  const { auto } = uiMessages.value.lobby;
  const buckets = bucketBytesOf(job);
  if (!STRATEGIES[strategy].hasAllReduces || (algorithm !== 'auto' && algorithm !== 'ring') || n < 2) return null;
  if (buckets === null || !isCollectiveCodec(codec)) return null;
  const chosen = mainAutoAlgorithm(n, buckets, codecEncodesHops(codec));
  if (chosen === 'ring') return algorithm === 'auto' ? auto.ring(n) : null;
  const describe = algorithm === 'auto' ? auto.saves : auto.wouldSave;
  const name = uiMessages.value.job.algorithms[chosen];
  const msOf = (by: (bytes: number) => AllReduceName): number =>
    Math.round(buckets.reduce((sum, bytes) => sum + expectedAllReduceMs(by(bytes), n, bytes), 0));
  const autoMs = msOf((bytes) => autoAlgorithm(n, bytes, codecEncodesHops(codec)));
  return describe(
    n,
    name,
    autoMs,
    msOf(() => 'ring'),
  );
}

/**
 * Returns the algorithm of a simulated run with the settings of the address. If the algorithm does
 * not exist, or if the ranks cannot run it, the run uses the ring, and `problem` says why.
 */
export function simulatedAlgorithm(
  query: URLSearchParams,
  n: number,
): { algorithm: AlgorithmName; problem: string | null } {
  const asked = query.get('algorithm') ?? PAGE_JOB_DEFAULTS.algorithm;
  const algorithm = ALGORITHM_NAMES.find((name) => name === asked);
  if (algorithm === undefined)
    return { algorithm: 'ring', problem: uiMessages.value.job.algorithmProblems.unknown(asked) };
  const problem = algorithmProblem({ ...DEFAULT_PAGE_JOB, algorithm }, n);
  return { algorithm: problem === null ? algorithm : 'ring', problem };
}
