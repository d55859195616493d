/**
 * Simulates the time of an all-reduce by algorithm and world size, on networks that are not
 * available here.
 */
import { allReducePlanner } from '../../src/collectives/plans/algorithms.ts';
import type { NetworkCosts } from '../../src/collectives/plans/costModel.ts';
import { switchedNetwork, wirelessNetwork } from '../../src/simulation/networks.ts';
import { collectiveSimulationScheduleOf } from '../../src/simulation/schedule.ts';
import { simulateCollective, type SimulatedNetwork } from '../../src/simulation/simulate.ts';
import { ALL_REDUCE_NAMES, type AllReduceName } from '../../src/spec/algorithms.ts';

export const NETWORKS = ['LAN', 'campus Wi-Fi', 'home uplinks'] as const;
type NetworkName = (typeof NETWORKS)[number];

/** World sizes: powers of two, and other numbers. */
export const WORLDS = [2, 4, 8, 12, 16, 24, 32, 48, 64, 128, 256, 1024];
/** Bytes of the simulated gradient, which is that of a small CNN. */
const GRADIENT_BYTES = 4_000_000;
const FLOAT_BYTES = 4;

export interface GrowthRow {
  network: NetworkName;
  n: number;
  /** Milliseconds by algorithm. */
  ms: Record<AllReduceName, number>;
}

/** Rate of a line in bytes per millisecond, and its latency in milliseconds. */
const LAN = { rate: 125_000, latencyMs: 0.3 };
/**
 * Total rate of an access point in bytes per millisecond, its latency, and the number of its
 * clients.
 */
const WIFI = { rate: 75_000 / 8, latencyMs: 5, perPoint: 16 };
const HOME = { up: 15_000 / 8, down: 100_000 / 8, latencyMs: 30 };

/**
 * Returns a network of machines with one tab each. Every machine is like the one to which `costs`
 * were fitted, and limits the rate if its line is faster.
 */
function networkOf(name: NetworkName, n: number, costs: NetworkCosts): SimulatedNetwork {
  const own = { ...costs, crowdMsPerByte: 0 };
  const limited = (rate: number): number => Math.max(1 / rate, costs.sharedMsPerByte);
  const on = (latencyMs: number, msPerByte: number): NetworkCosts => ({
    ...own,
    hopMs: costs.hopMs + latencyMs,
    msPerByte,
  });
  switch (name) {
    case 'LAN':
      return switchedNetwork(n, on(LAN.latencyMs, limited(LAN.rate)));
    case 'campus Wi-Fi':
      return wirelessNetwork(n, on(WIFI.latencyMs, 1 / WIFI.rate), WIFI.perPoint);
    case 'home uplinks':
      return switchedNetwork(n, on(HOME.latencyMs, 1 / HOME.up), 1 / HOME.down);
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
export function simulateGrowth(
  costs: NetworkCosts,
  worlds: readonly number[],
  log: (line: string) => void,
): GrowthRow[] {
  return worlds.flatMap((n) => {
    log(`simulating ${n} ranks ...`);
    const rows = NETWORKS.map((network) => ({ network, n, ms: {} as GrowthRow['ms'] }));
    for (const name of ALL_REDUCE_NAMES) {
      const schedule = collectiveSimulationScheduleOf(allReducePlanner(name, n, GRADIENT_BYTES / FLOAT_BYTES), n);
      for (const { network, ms } of rows) {
        const conditions = { network: networkOf(network, n, costs), elementBytes: FLOAT_BYTES };
        ms[name] = simulateCollective(schedule, conditions).ms;
      }
    }
    return rows;
  });
}

/** Returns the fastest algorithm. */
export function fastestOf({ ms }: GrowthRow): AllReduceName {
  return ALL_REDUCE_NAMES.reduce((best, name) => (ms[name] < ms[best] ? name : best));
}
