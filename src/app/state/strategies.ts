/** Tells which settings each strategy has and what the page can show of it; pure. */
import { chooseAllReduce } from '../../collectives/plans/costModel.ts';
import { ringStepCount } from '../../collectives/plans/ringPlan.ts';
import { Algorithm } from '../../protocol/frame.ts';
import type { JobSpec, StrategyName } from '../../spec/job.ts';
import { messages } from '../locales/index.ts';

/** The settings of each strategy. A strategy ignores the other settings. */
export const SETTINGS: Record<StrategyName, readonly ('syncEvery' | 'staleness' | 'replicas')[]> = {
  ddp: [],
  'parameter-server': [],
  'async-parameter-server': ['staleness', 'syncEvery'],
  'data-parallel': ['replicas'],
  'local-sgd': ['syncEvery'],
  diloco: ['syncEvery'],
};

/**
 * Returns whether the loss and the samples that this rank reports for a step are its own only. The
 * ranks then exchange results after several steps, not in every step.
 */
export function reportsOwnLossOnly({ strategy }: JobSpec, worldSize: number): boolean {
  const isApart = strategy === 'async-parameter-server' || strategy === 'local-sgd' || strategy === 'diloco';
  return isApart && worldSize > 1;
}

/**
 * Returns whether all gradients are sent to rank 0. Then rank 0 sends more than the other ranks.
 */
export function hasServer(strategy: StrategyName): boolean {
  return strategy === 'parameter-server' || strategy === 'async-parameter-server' || strategy === 'data-parallel';
}

/** What is drawn for a run without a ring. */
export interface Instead {
  /** The lines to draw: between rank 0 and each other rank, or none. */
  lines: 'star' | 'none';
  words: string;
}

/**
 * Returns what the ranks of `job` do instead of using a ring; `null` if they use a ring.
 *
 * @param bucketBytes sizes of the buckets; `null` until they are known. With many ranks, small
 * buckets are not sent over the ring.
 */
export function insteadOfRing(
  { strategy, syncEvery, algorithm, codec }: JobSpec,
  worldSize: number,
  bucketBytes: readonly number[] | null,
): Instead | null {
  const { instead } = messages.value.job;
  switch (strategy) {
    case 'ddp': {
      if (codec === 'powersgd') return { lines: 'none', words: instead.powersgd };
      if (bucketBytes === null) return null;
      if (algorithm === 'ring') return null;
      const isEncoded = codec !== 'auto' && codec !== 'fp32';
      const goesRound = (bytes: number): boolean => chooseAllReduce(worldSize, bytes, isEncoded) === Algorithm.RING;
      if (algorithm === 'auto' && bucketBytes.some(goesRound)) return null;
      return { lines: 'none', words: instead.otherwise(worldSize, ringStepCount(worldSize)) };
    }
    case 'parameter-server':
    case 'data-parallel':
      return { lines: 'star', words: instead.server };
    case 'async-parameter-server':
      return { lines: 'star', words: instead.asyncServer };
    case 'local-sgd':
      return { lines: 'none', words: instead.average(syncEvery) };
    case 'diloco':
      return { lines: 'none', words: instead.diloco(syncEvery) };
    default:
      return strategy satisfies never;
  }
}
