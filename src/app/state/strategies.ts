/** The strategies: what there is to set, and what of each can be watched; pure. */
import { codecOf } from '../../collectives/codecs.ts';
import { chooseAllReduce } from '../../collectives/plans/costModel.ts';
import { ringStepCount } from '../../collectives/plans/ringPlan.ts';
import { Algorithm } from '../../protocol/frame.ts';
import type { JobSpec, StrategyName } from '../../spec/job.ts';
import { messages } from '../locales/index.ts';

/** What a strategy lets one set; the others ignore it. */
export const SETTINGS: Record<StrategyName, readonly ('syncEvery' | 'staleness' | 'replicas')[]> = {
  ddp: [],
  'parameter-server': [],
  'async-parameter-server': ['staleness', 'syncEvery'],
  'data-parallel': ['replicas'],
  'local-sgd': ['syncEvery'],
  diloco: ['syncEvery'],
};

/**
 * Whether a step's loss and samples are this rank's alone: the others' are known after an exchange
 * only.
 */
export function tellsOwnOnly({ strategy }: JobSpec, worldSize: number): boolean {
  const isApart = strategy === 'async-parameter-server' || strategy === 'local-sgd' || strategy === 'diloco';
  return isApart && worldSize > 1;
}

/** Whether all gradients go to rank 0, which then sends more than the others. */
export function hasServer(strategy: StrategyName): boolean {
  return strategy === 'parameter-server' || strategy === 'async-parameter-server' || strategy === 'data-parallel';
}

/** What there is to see where gradients do not go round a ring. */
export interface Instead {
  /** Who sends to whom: all to rank 0 and back, or now these, now those. */
  lines: 'star' | 'none';
  words: string;
}

/**
 * What the ranks of `job` do instead of a ring; `null` where there is one.
 *
 * @param bucketBytes of each bucket, once known: small ones of many ranks take another way.
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
