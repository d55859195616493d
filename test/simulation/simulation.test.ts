import { describe, expect, test } from 'vitest';
import * as plans from '../../src/collectives/plans/plans.ts';
import { SimulationEventQueue } from '../../src/simulation/eventQueue.ts';
import { collectiveSimulationScheduleOf } from '../../src/simulation/schedule.ts';
import { simulateCollective, type SimulatedNetwork, type SimulationOptions } from '../../src/simulation/simulate.ts';
import { FRAME_HEADER_BYTES } from '../../src/protocol/frame.ts';
import { createRng } from '../../src/util/rng.ts';

const HEADER = FRAME_HEADER_BYTES;

/**
 * Creates a network with an uplink and a downlink for each rank. A byte takes `msPerByte` on each
 * of the two.
 */
function switched(n: number, { msPerByte = 0, latencyMs = 0, combineMsPerByte = 0 }): SimulatedNetwork {
  return {
    resources: Array.from({ length: 2 * n }, () => ({ msPerByte, msPerFrame: 0 })),
    pathOf: (from, to) => ({ first: from, second: n + to, latencyMs, latencyMsPerByte: 0 }),
    combineMsPerByte,
  };
}

type AllReduce = typeof plans.planRingAllReduce;

function run(
  plan: AllReduce,
  n: number,
  count: number,
  network: SimulatedNetwork,
  options?: Partial<SimulationOptions>,
) {
  const schedule = collectiveSimulationScheduleOf((rank) => plan(rank, n, count), n);
  return simulateCollective(schedule, { network, elementBytes: 4, ...options });
}

test('events are ordered by time, and events of the same time by insertion', () => {
  const rng = createRng(1);
  const queue = new SimulationEventQueue();
  const put = Array.from({ length: 5000 }, (_, event) => ({ event, time: rng.below(100) }));
  const taken: { event: number; time: number }[] = [];
  const take = (): void => {
    const time = queue.time;
    taken.push({ time, event: queue.pop() });
  };
  put.slice(0, 2000).forEach(({ time, event }) => queue.push(time, event));
  while (queue.size > 0) take();
  put.slice(2000).forEach(({ time, event }) => queue.push(time, event));
  while (queue.size > 0) take();
  const sorted = (list: typeof put) => list.toSorted((a, b) => a.time - b.time || a.event - b.event);
  expect(taken).toEqual([...sorted(put.slice(0, 2000)), ...sorted(put.slice(2000))]);
});

describe('a simulated all-reduce', () => {
  test.each([2, 3, 5, 8, 12])(
    'takes 2(n-1) times the latency and transfer time of a chunk, for %i ranks on a ring and one frame per chunk',
    (n) => {
      const network = switched(n, { msPerByte: 0.001, latencyMs: 3 });
      const { ms, endedAt } = run(plans.planRingAllReduce, n, 100 * n, network);
      expect(ms).toBeCloseTo(2 * (n - 1) * (3 + (400 + HEADER) * 0.001), 9);
      expect(new Set(endedAt).size).toBe(1);
    },
  );

  test('sends segments one after the other without waiting, so that long chunks hide latency', () => {
    const n = 4;
    const count = 4 * 16_000;
    const network = switched(n, { msPerByte: 0.001, latencyMs: 10 });
    const { ms } = run(plans.planRingAllReduce, n, count, network, { segmentBytes: 4000 });
    const chunkMs = 16 * 4.032;
    // The line is idle only before the first segment and after the last one.
    expect(ms).toBeCloseTo(2 * (n - 1) * chunkMs + 10, 6);
  });

  test('takes 4 latencies with doubling, 8 with halving-doubling, 12 with two-level and 30 with the ring, for 16 ranks', () => {
    const latency = switched(16, { latencyMs: 1 });
    expect(run(plans.planRecursiveDoublingAllReduce, 16, 10, latency).ms).toBe(4);
    expect(run(plans.planHalvingDoublingAllReduce, 16, 1600, latency).ms).toBe(8);
    expect(run(plans.planTwoLevelAllReduce, 16, 1600, latency).ms).toBe(12);
    expect(run(plans.planRingAllReduce, 16, 1600, latency).ms).toBe(30);
  });

  test('takes longer by the time in which the receiver adds the segments, one segment after the other', () => {
    const network = switched(2, { latencyMs: 1, combineMsPerByte: 0.01 });
    expect(run(plans.planRingAllReduce, 2, 200, network).ms).toBeCloseTo(2 + 4, 9);
  });

  test('takes longer by exactly the delay of a late rank', () => {
    const network = switched(4, { latencyMs: 1 });
    const { ms } = run(plans.planRingAllReduce, 4, 400, network, { startAt: [0, 50, 0, 0] });
    expect(ms).toBe(56);
  });

  test('takes as long as all frames in sequence if all ranks share one radio channel', () => {
    const n = 4;
    const network: SimulatedNetwork = {
      resources: [{ msPerByte: 0.001, msPerFrame: 0.5 }],
      pathOf: () => ({ first: 0, second: null, latencyMs: 0, latencyMsPerByte: 0 }),
      combineMsPerByte: 0,
    };
    const frames = n * 2 * (n - 1);
    expect(run(plans.planRingAllReduce, n, 400, network).ms).toBeCloseTo(frames * (0.5 + (400 + HEADER) * 0.001), 9);
  });

  test('queues frames of two senders on the downlink of one rank', () => {
    const n = 3;
    const network = switched(n, { msPerByte: 0.001 });
    const schedule = collectiveSimulationScheduleOf((rank) => plans.planDirectReduce(rank, n, 0, 1000), n);
    const { ms } = simulateCollective(schedule, { network, elementBytes: 4 });
    expect(ms).toBeCloseTo(2 * (4000 + HEADER) * 0.001, 9);
  });

  test('takes almost the same time with larger segments, as long as a chunk has several of them', () => {
    for (const [name, plan] of Object.entries(ALL_REDUCES)) {
      const network = switched(8, { msPerByte: 0.001, latencyMs: 2 });
      const fine = run(plan, 8, 2_000_000, network);
      const coarse = run(plan, 8, 2_000_000, network, { segmentBytes: 125_000 });
      expect(coarse.events, name).toBeLessThan(fine.events * 0.6);
      expect(Math.abs(coarse.ms / fine.ms - 1), name).toBeLessThan(0.03);
    }
  });

  test('takes equally long in each simulation, and no time with one rank', () => {
    const network = switched(6, { msPerByte: 0.0013, latencyMs: 0.7, combineMsPerByte: 1e-5 });
    const [one, two] = [1, 2].map(() => run(plans.planHalvingDoublingAllReduce, 6, 50_000, network));
    expect(one!.endedAt).toEqual(two!.endedAt);
    expect(run(plans.planRingAllReduce, 1, 10, network).ms).toBe(0);
  });

  test('reports when each send and each receive was complete', () => {
    const network = switched(2, { msPerByte: 0.01, latencyMs: 5 });
    const result = run(plans.planRingAllReduce, 2, 50, network);
    const frame = (100 + HEADER) * 0.01;
    expect(result.endOf(0, 'send', 0)).toBeCloseTo(frame, 9);
    expect(result.endOf(1, 'receive', 0)).toBeCloseTo(frame + 5, 9);
    expect(result.endOf(1, 'send', 1)).toBeCloseTo(2 * frame + 5, 9);
    expect(result.endOf(1, 'send', 2)).toBeNull();
  });
});

const ALL_REDUCES: Record<string, AllReduce> = {
  ring: plans.planRingAllReduce,
  'two-level': plans.planTwoLevelAllReduce,
  'halving-doubling': plans.planHalvingDoublingAllReduce,
};

const transfer = (kind: 'send' | 'receive', peer: number, step: number, end: number): plans.PlanMove => ({
  kind,
  peer,
  step,
  start: 0,
  end,
  how: 'copy',
});

test.each([
  ['no receive', [transfer('send', 1, 0, 4)], [], /does not receive/],
  ['another step', [transfer('send', 1, 0, 4)], [transfer('receive', 0, 1, 4)], /does not receive/],
  ['a longer send', [transfer('send', 1, 0, 4)], [transfer('receive', 0, 0, 3)], /does not receive/],
  ['no send', [], [transfer('receive', 0, 0, 3)], /Rank 1 receives from rank 0, but that rank does not send/],
] as const)('a schedule rejects plans with sends that do not match the receives: %s', (_, mine, theirs, message) => {
  expect(() => collectiveSimulationScheduleOf((rank) => (rank === 0 ? mine : theirs), 2)).toThrow(message);
});

test('a simulation rejects plans in which ranks wait for each other', () => {
  const schedule = collectiveSimulationScheduleOf(
    (rank) => [transfer('receive', 1 - rank, rank, 1), transfer('send', 1 - rank, 1 - rank, 1)],
    2,
  );
  expect(() => simulateCollective(schedule, { network: switched(2, {}), elementBytes: 4 })).toThrow(
    /wait for each other/,
  );
});
