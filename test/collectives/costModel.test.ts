import { describe, expect, test } from 'vitest';
import { allReduceRounds, chooseAllReduce, estimate, type Costs } from '../../src/collectives/costModel.ts';
import * as plans from '../../src/collectives/plans.ts';
import { scheduleOf } from '../../src/collectives/simulation/schedule.ts';
import { simulate, type Network } from '../../src/collectives/simulation/simulate.ts';
import { Algorithm } from '../../src/protocol/frame.ts';

const LAN: Costs = {
  ...{ hopMs: 1.5, msPerByte: 1 / 10_000, combineMsPerByte: 1 / 2_000_000 },
  ...{ sharedMsPerFrame: 0, sharedMsPerByte: 0 },
};
const HOME: Costs = { ...LAN, hopMs: 31, msPerByte: 1 / 1250 };
const ONE_MACHINE: Costs = { ...LAN, msPerByte: 0, sharedMsPerFrame: 0.1, sharedMsPerByte: 1 / 12_000 };

const PLANS = [
  [Algorithm.RING, plans.ringAllReduce],
  [Algorithm.TWO_LEVEL, plans.twoLevelAllReduce],
  [Algorithm.HALVING_DOUBLING, plans.halvingDoubling],
  [Algorithm.DOUBLING, plans.recursiveDoubling],
] as const;
const SIZES = [1_000, 40_000, 400_000, 4_000_000];

function simulated(plan: typeof plans.ringAllReduce, n: number, bytes: number, costs: Costs): number {
  const { hopMs: latencyMs, msPerByte, combineMsPerByte, sharedMsPerByte, sharedMsPerFrame } = costs;
  const isShared = sharedMsPerByte > 0;
  const network: Network = {
    lines: isShared
      ? [{ msPerByte: sharedMsPerByte, msPerFrame: sharedMsPerFrame }]
      : Array.from({ length: 2 * n }, () => ({ msPerByte, msPerFrame: 0 })),
    pathOf: (from, to) =>
      isShared ? { first: 0, second: null, latencyMs } : { first: from, second: n + to, latencyMs },
    combineMsPerByte,
  };
  const schedule = scheduleOf((rank) => plan(rank, n, bytes / 4), n);
  return simulate(schedule, { network, elementBytes: 4 }).ms;
}

describe.each([
  ['a local network', LAN],
  ['uplinks at home', HOME],
  ['tabs of one machine', ONE_MACHINE],
])('on %s', (_, costs) => {
  test.each([2, 3, 8, 16, 24])('the model estimates what the simulation of the plans takes %i ranks', (n) => {
    for (const bytes of SIZES) {
      for (const [algorithm, plan] of PLANS) {
        const ms = simulated(plan, n, bytes, costs);
        const error = estimate(allReduceRounds(algorithm, n, bytes), n, costs) / ms - 1;
        // Plans that fold a world to a power of two overlap that with their first step.
        const bound = algorithm === Algorithm.RING ? 0.06 : 0.3;
        expect(Math.abs(error), `algorithm ${algorithm}, ${bytes} bytes: ${ms} ms`).toBeLessThan(bound);
      }
    }
  });
});

test('on a local network the algorithm chosen is at most a fifth, and its links, slower than the quickest', () => {
  for (const n of [9, 12, 16, 24, 31, 48, 64]) {
    for (const bytes of SIZES) {
      const times = new Map(PLANS.map(([algorithm, plan]) => [algorithm as Algorithm, simulated(plan, n, bytes, LAN)]));
      const best = Math.min(...times.values());
      const chosen = times.get(chooseAllReduce(n, bytes))!;
      expect(chosen, `${n} ranks, ${bytes} bytes`).toBeLessThan(1.2 * best + 10);
    }
  }
});
