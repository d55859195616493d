/**
 * Simulates the time of an all-reduce by algorithm and world size, on networks that are not
 * available here.
 */
import type { Costs } from '../../src/collectives/plans/costModel.ts';
import {
  halvingDoubling,
  recursiveDoubling,
  ringAllReduce,
  twoLevelAllReduce,
} from '../../src/collectives/plans/plans.ts';
import { switched, wireless } from '../../src/simulation/networks.ts';
import { scheduleOf } from '../../src/simulation/schedule.ts';
import { simulate, type Network } from '../../src/simulation/simulate.ts';

export const ALGORITHMS = {
  ring: ringAllReduce,
  'two-level': twoLevelAllReduce,
  'halving-doubling': halvingDoubling,
  doubling: recursiveDoubling,
} as const;
export type AlgorithmName = keyof typeof ALGORITHMS;

export const NETWORKS = ['LAN', 'campus Wi-Fi', 'home uplinks'] as const;
type NetworkName = (typeof NETWORKS)[number];

/**
 * Bytes of the simulated gradients: twice that of the mlp, that of a small CNN, and that of ten
 * million parameters.
 */
const GRADIENTS = [400_000, 4_000_000, 40_000_000];
/** World sizes: powers of two, and other numbers. */
export const WORLDS = [2, 4, 8, 12, 16, 24, 32, 48, 64, 128, 256, 1024];

export interface GrowthRow {
  network: NetworkName;
  bytes: number;
  n: number;
  /** Milliseconds by algorithm; `null` if the algorithm was not simulated. */
  ms: Record<AlgorithmName, number | null>;
}

/** Rate of a line in bytes per millisecond, and its latency in milliseconds. */
const LAN = { rate: 125_000, latencyMs: 0.3 };
/**
 * Total rate of an access point in bytes per millisecond, its latency, and the number of its
 * clients.
 */
const WIFI = { rate: 75_000 / 8, latencyMs: 5, perPoint: 16 };
const HOME = { up: 15_000 / 8, down: 100_000 / 8, latencyMs: 30 };
const FLOAT_BYTES = 4;
/**
 * Worlds above this size are simulated with only one gradient, because a ring of 1024 ranks sends
 * two million chunks.
 */
const LARGE_WORLD = 256;
const LARGE_WORLD_BYTES = [4_000_000];
/**
 * Maximum bytes for which recursive doubling is simulated. It sends the whole tensor log2(n) times,
 * so for larger tensors it is far slower than the others, and its simulation takes minutes.
 */
const MOST_DOUBLED = 4_000_000;

/**
 * Returns a network of machines with one tab each. Every machine is like the one to which `costs`
 * were fitted, and limits the rate if its line is faster.
 */
function networkOf(name: NetworkName, n: number, costs: Costs): Network {
  const own = { ...costs, crowdMsPerByte: 0 };
  const limited = (rate: number): number => Math.max(1 / rate, costs.sharedMsPerByte);
  const on = (latencyMs: number, msPerByte: number): Costs => ({ ...own, hopMs: costs.hopMs + latencyMs, msPerByte });
  switch (name) {
    case 'LAN':
      return switched(n, on(LAN.latencyMs, limited(LAN.rate)));
    case 'campus Wi-Fi':
      return wireless(n, on(WIFI.latencyMs, 1 / WIFI.rate), WIFI.perPoint);
    case 'home uplinks':
      return switched(n, on(HOME.latencyMs, 1 / HOME.up), 1 / HOME.down);
    default:
      return name satisfies never;
  }
}

/**
 * Simulates all-reduces by every algorithm on every network.
 *
 * @param worlds world sizes to simulate.
 * @param log receives a line of progress for each world size.
 */
export function simulateGrowth(costs: Costs, worlds: readonly number[], log: (line: string) => void): GrowthRow[] {
  const rows: GrowthRow[] = [];
  for (const n of worlds) {
    log(`simulating ${n} ranks ...`);
    for (const bytes of n > LARGE_WORLD ? LARGE_WORLD_BYTES : GRADIENTS) {
      const times = new Map(NETWORKS.map((name) => [name, {} as GrowthRow['ms']]));
      for (const [algorithm, planOf] of Object.entries(ALGORITHMS)) {
        const isLeftOut = algorithm === 'doubling' && bytes > MOST_DOUBLED;
        const schedule = isLeftOut ? null : scheduleOf((rank) => planOf(rank, n, bytes / FLOAT_BYTES), n);
        for (const [name, ms] of times) {
          ms[algorithm as AlgorithmName] =
            schedule && simulate(schedule, { network: networkOf(name, n, costs), elementBytes: FLOAT_BYTES }).ms;
        }
      }
      rows.push(...Array.from(times, ([network, ms]) => ({ network, bytes, n, ms })));
    }
  }
  return rows;
}

/** Returns the fastest algorithm, its time, and the time of the ring divided by that time. */
export function fastestOf({ ms }: GrowthRow): { algorithm: AlgorithmName; ms: number; ringRatio: number } {
  const [best] = (Object.entries(ms) as [AlgorithmName, number | null][])
    .filter((entry): entry is [AlgorithmName, number] => entry[1] !== null)
    .sort(([, a], [, b]) => a - b);
  return { algorithm: best![0], ms: best![1], ringRatio: ms.ring! / best![1] };
}

export interface Crossover {
  network: NetworkName;
  bytes: number;
  /** Largest world size in which the ring is at most 10 % slower than the fastest algorithm. */
  ringPaysTo: number;
  /** Smallest world size in which the two-level algorithm is the fastest; `null`: never. */
  twoLevelFrom: number | null;
}

/** Other algorithms need more links than a ring, which are not worth a gain below 10 %. */
const WORTH = 1.1;

export function crossovers(rows: readonly GrowthRow[]): Crossover[] {
  return NETWORKS.flatMap((network) =>
    GRADIENTS.map((bytes) => {
      const own = rows.filter((row) => row.network === network && row.bytes === bytes);
      const late = own.findIndex((row) => fastestOf(row).ringRatio > WORTH);
      const twoLevel = own.find((row) => {
        const { algorithm, ringRatio } = fastestOf(row);
        return algorithm === 'two-level' && ringRatio > WORTH;
      });
      return {
        network,
        bytes,
        ringPaysTo: own[late < 0 ? own.length - 1 : Math.max(0, late - 1)]!.n,
        twoLevelFrom: twoLevel?.n ?? null,
      };
    }),
  );
}
