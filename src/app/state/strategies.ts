/** Decides what the page can show for a strategy; pure. */
import {
  ALL_REDUCE_NAMES,
  whyAlgorithmCannotRun,
  type AllReduceName,
  type RunAlgorithm,
} from '../../spec/algorithms.ts';
import { isCollectiveCodec, STRATEGIES, type JobSpec } from '../../spec/job.ts';
import { codecEncodesHops } from '../../spec/plan.ts';
import { uiMessages } from '../locales/index.ts';
import { mainAutoAlgorithm } from './algorithm.ts';

/**
 * Returns whether a rank reports only its own loss and samples of a step. This is so if ranks do
 * not exchange results in every step.
 */
export function reportsOwnLossOnly({ measure, strategy }: JobSpec, worldSize: number): boolean {
  return (measure === 'methods' || !STRATEGIES[strategy].isSynchronous) && worldSize > 1;
}

/** The picture of a run without an all-reduce of gradients. */
export interface RunPictureWithoutAllReduce {
  /** The lines to draw: between rank 0 and each other rank, or none. */
  lines: 'star' | 'none';
  words: string;
}

/**
 * Returns the all-reduce algorithm that the page draws for `job`, or what the ranks do instead of
 * an all-reduce of gradients.
 *
 * @param used the algorithm in use; `null` until it is known. The page then draws the algorithm
 *   that a run would use.
 * @param bucketBytes sizes of the buckets; `null` until they are known.
 */
export function runPictureOfJob(
  { measure, strategy, syncEvery, algorithm, codec, shardOptimizer }: JobSpec,
  worldSize: number,
  used: RunAlgorithm | null,
  bucketBytes: readonly number[] | null,
): AllReduceName | RunPictureWithoutAllReduce {
  const { strategies, insteadOfGradients, insteadOfTraining } = uiMessages.value.job;
  if (measure === 'methods') return { lines: 'none', words: insteadOfTraining };
  const words = strategies[strategy].instead;
  if (words !== null) {
    return { lines: STRATEGIES[strategy].exchanges === 'server' ? 'star' : 'none', words: words(syncEvery) };
  }
  if (codec !== 'auto' && !isCollectiveCodec(codec)) return { lines: 'none', words: insteadOfGradients[codec] };
  const known = ALL_REDUCE_NAMES.find((name) => name === used);
  if (known !== undefined) return known;
  if (shardOptimizer) return 'ring';
  // If the ranks cannot run the job's algorithm, they use the ring.
  if (algorithm !== 'auto') return whyAlgorithmCannotRun(algorithm, worldSize) === null ? algorithm : 'ring';
  if (bucketBytes === null || worldSize < 2) return 'ring';
  return mainAutoAlgorithm(worldSize, bucketBytes, codecEncodesHops(codec));
}
