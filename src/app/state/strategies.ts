/** Tells which settings each strategy has and what the page can show of it; pure. */
import { ALL_REDUCE_NAMES, misfitOfAlgorithm, type AllReduceName, type RunAlgorithm } from '../../spec/algorithms.ts';
import type { JobSpec, StrategyName } from '../../spec/job.ts';
import { encodesHops, isLocalSteps } from '../../spec/plan.ts';
import { messages } from '../locales/index.ts';
import { mainAlgorithm } from './algorithm.ts';

/** The settings of each strategy. A strategy ignores the other settings. */
export const SETTINGS: Record<StrategyName, readonly ('syncEvery' | 'staleness')[]> = {
  ddp: [],
  'parameter-server': [],
  'async-parameter-server': ['staleness', 'syncEvery'],
  'local-sgd': ['syncEvery'],
  diloco: ['syncEvery'],
  'streaming-diloco': ['syncEvery'],
  sparseloco: ['syncEvery'],
  auto: [],
};

/**
 * Returns whether the loss and the samples that this rank reports for a step are its own only. The
 * ranks then exchange results after several steps, not in every step.
 */
export function reportsOwnLossOnly({ strategy }: JobSpec, worldSize: number): boolean {
  return (strategy === 'async-parameter-server' || isLocalSteps(strategy)) && worldSize > 1;
}

/**
 * Returns whether all gradients are sent to rank 0. Then rank 0 sends more than the other ranks.
 */
export function hasServer(strategy: StrategyName): boolean {
  return strategy === 'parameter-server' || strategy === 'async-parameter-server';
}

/** What is drawn for a run without an all-reduce of gradients. */
export interface Instead {
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
export function pictureOf(
  { strategy, syncEvery, algorithm, codec, shardOptimizer }: JobSpec,
  worldSize: number,
  used: RunAlgorithm | null,
  bucketBytes: readonly number[] | null,
): AllReduceName | Instead {
  const { instead } = messages.value.job;
  switch (strategy) {
    case 'ddp': {
      if (codec === 'powersgd') return { lines: 'none', words: instead[codec] };
      const known = ALL_REDUCE_NAMES.find((name) => name === used);
      if (known !== undefined) return known;
      if (shardOptimizer) return 'ring';
      // A world that cannot run the algorithm uses the ring.
      if (algorithm !== 'auto') return misfitOfAlgorithm(algorithm, worldSize) === null ? algorithm : 'ring';
      if (bucketBytes === null || worldSize < 2) return 'ring';
      return mainAlgorithm(worldSize, bucketBytes, encodesHops(codec));
    }
    case 'parameter-server':
      return { lines: 'star', words: instead.server };
    case 'async-parameter-server':
      return { lines: 'star', words: instead.asyncServer };
    case 'local-sgd':
      return { lines: 'none', words: instead.average(syncEvery) };
    case 'diloco':
      return { lines: 'none', words: instead.diloco(syncEvery) };
    case 'streaming-diloco':
      return { lines: 'none', words: instead.streamingDiloco(syncEvery) };
    case 'sparseloco':
      return { lines: 'none', words: instead.sparseloco(syncEvery) };
    case 'auto':
      return { lines: 'none', words: instead.auto };
    default:
      return strategy satisfies never;
  }
}
