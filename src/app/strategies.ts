/** The strategies in words: what each does and costs, what there is to set, and what of it can be watched; pure. */
import { chooseAllReduce } from '../collectives/costModel.ts';
import { ringStepCount } from '../collectives/ringPlan.ts';
import { Algorithm } from '../protocol/frame.ts';
import type { JobSpec, StrategyName } from '../protocol/job.ts';
import { plural } from './format.ts';

export const STRATEGIES: Record<StrategyName, string> = {
  ring: 'ring',
  'parameter-server': 'parameter server',
  'async-parameter-server': 'parameter server, no waiting',
  'data-parallel': 'workers in one tab',
  'local-sgd': 'local SGD',
  diloco: 'DiLoCo',
};

/** What it does, and what that costs. */
export const DOES: Record<StrategyName, string> = {
  ring: 'In every step gradients are added up round a ring: each tab sends less than twice its gradient, and waits for the slowest.',
  'parameter-server':
    'In every step rank 0 gathers all gradients and sends the parameters back: two hops only, but all bytes go over its line.',
  'async-parameter-server':
    'Like a parameter server, but a tab need not wait for slower ones: steps are quicker, and learn from parameters a little old.',
  'data-parallel':
    'This one tab trains with several workers: nothing crosses the network, but they share one machine. A room of several tabs is refused.',
  'local-sgd':
    'Each tab learns by itself, and now and then all take their average: few bytes, but the tabs drift apart in between.',
  diloco:
    'Like local SGD for longer stretches, and a second optimizer moves all by what they learned: fewest bytes, longest apart.',
};

/** What a strategy lets one set; the others ignore it. */
export const SETTINGS: Record<StrategyName, readonly ('syncEvery' | 'staleness' | 'replicas')[]> = {
  ring: [],
  'parameter-server': [],
  'async-parameter-server': ['staleness', 'syncEvery'],
  'data-parallel': ['replicas'],
  'local-sgd': ['syncEvery'],
  diloco: ['syncEvery'],
};

/** `local SGD, an exchange every 8 steps`. */
export function describeStrategy({ strategy, syncEvery, staleness, replicas }: JobSpec): string {
  const name = STRATEGIES[strategy];
  switch (strategy) {
    case 'ring':
    case 'parameter-server':
      return name;
    case 'async-parameter-server':
      return `${name}, at most ${plural(staleness, 'step')} ahead${syncEvery === null ? '' : `, all wait ${often(syncEvery)}`}`;
    case 'data-parallel':
      return `${plural(replicas, 'worker')} in one tab`;
    case 'local-sgd':
    case 'diloco':
      return syncEvery === null ? name : `${name}, an exchange ${often(syncEvery)}`;
    default:
      return strategy satisfies never;
  }
}

/** Whether a step's loss and samples are this rank's alone: the others' are known after an exchange only. */
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
  { strategy, syncEvery }: JobSpec,
  worldSize: number,
  bucketBytes: readonly number[] | null,
): Instead | null {
  switch (strategy) {
    case 'ring': {
      if (bucketBytes === null) return null;
      if (bucketBytes.some((bytes) => chooseAllReduce(worldSize, bytes) === Algorithm.RING)) return null;
      return {
        lines: 'none',
        words:
          `Round a ring of ${worldSize}, these gradients would take ${ringStepCount(worldSize)} steps. ` +
          'Ranks exchange them in pairs instead, in far fewer: there is no ring in this run.',
      };
    }
    case 'parameter-server':
    case 'data-parallel':
      return {
        lines: 'star',
        words: 'Ranks send gradients to rank 0 and get parameters back: there is no ring in this run.',
      };
    case 'async-parameter-server':
      return {
        lines: 'star',
        words:
          'Ranks send gradients to rank 0 and get parameters back, each at its own pace: there is no ring in this run.',
      };
    case 'local-sgd':
      return {
        lines: 'none',
        words: `Each rank learns by itself, and ${often(syncEvery)} all take the average of their parameters: nothing is sent in between.`,
      };
    case 'diloco':
      return {
        lines: 'none',
        words: `Each rank learns by itself, and ${often(syncEvery)} all move on together by the average of what they learned: nothing is sent in between.`,
      };
    default:
      return strategy satisfies never;
  }
}

function often(steps: number | null): string {
  if (steps === null) return 'now and then';
  return steps === 1 ? 'after every step' : `every ${steps} steps`;
}
