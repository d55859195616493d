/** Settings of the strategies, and what each can show; pure. */
import { codecOf } from '../../collectives/codecs.ts';
import { chooseAllReduce } from '../../collectives/plans/costModel.ts';
import { ringStepCount } from '../../collectives/plans/ringPlan.ts';
import { Algorithm } from '../../protocol/frame.ts';
import type { JobSpec, StrategyName } from '../../spec/job.ts';
import { messages } from '../locales/index.ts';

/** Settings by strategy; the others ignore them. */
export const SETTINGS: Record<StrategyName, readonly ('syncEvery' | 'staleness' | 'replicas')[]> = {
  ddp: [],
  'parameter-server': [],
  'async-parameter-server': ['staleness', 'syncEvery'],
  'data-parallel': ['replicas'],
  'local-sgd': ['syncEvery'],
  diloco: ['syncEvery'],
};

/** Whether the loss and samples of a step are those of this rank alone, until the next exchange. */
export function reportsOwnLossOnly({ strategy }: JobSpec, worldSize: number): boolean {
  const isApart = strategy === 'async-parameter-server' || strategy === 'local-sgd' || strategy === 'diloco';
  return isApart && worldSize > 1;
}

/** Whether all gradients go to rank 0, which then sends more than the others. */
export function hasServer(strategy: StrategyName): boolean {
  return strategy === 'parameter-server' || strategy === 'async-parameter-server' || strategy === 'data-parallel';
}

/** The picture of a run without a ring. */
export interface Instead {
  /** Links: all ranks to rank 0 and back, or changing pairs. */
  lines: 'star' | 'none';
  words: string;
}

/**
 * What the ranks of `job` do instead of a ring; `null` if there is a ring.
 *
 * @param bucketBytes sizes of the buckets, once known: small ones of many ranks use another
 *   algorithm.
 */
export function insteadOfRing(
  { strategy, syncEvery, codec }: JobSpec,
  worldSize: number,
  bucketBytes: readonly number[] | null,
): Instead | null {
  const { instead } = messages.value.job;
  switch (strategy) {
    case 'ddp': {
      if (codec === 'powersgd') return { lines: 'none', words: instead.powersgd };
      if (bucketBytes === null) return null;
      const travelling = codec === 'auto' ? null : codecOf(codec);
      const goesRound = (bytes: number): boolean =>
        chooseAllReduce(worldSize, bytes, travelling?.bytesOf(bytes / Float32Array.BYTES_PER_ELEMENT)) ===
        Algorithm.RING;
      if (bucketBytes.some(goesRound)) return null;
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
