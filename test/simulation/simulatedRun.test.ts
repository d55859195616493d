import { expect, test } from 'vitest';
import { createSimulatedCluster, simulateStep } from '../../src/simulation/cluster.ts';
import { simulatedRun } from '../../src/simulation/simulatedRun.ts';
import { initialTabView, reduceTabView } from '../../src/app/state/view.ts';
import { modulo } from '../../src/collectives/plans/ringPlan.ts';
import { allReducePlanner, autoAlgorithm } from '../../src/collectives/plans/algorithms.ts';
import { ALL_REDUCE_NAMES } from '../../src/spec/algorithms.ts';

const BYTES = 203_560;

test.each([2, 3, 8, 32])(
  'each chunk arrives after it was sent, and is then passed on, in a simulated cluster of %i machines',
  (n) => {
    const cluster = createSimulatedCluster(n, 7);
    const steps = simulateStep(cluster, 0, BYTES, 'ring');
    for (const [rank, { hops, startedAt, ms }] of steps.entries()) {
      const left = modulo(rank - 1, n);
      expect(hops).toHaveLength(2 * (n - 1));
      for (const [i, { sentAt, receivedAt }] of hops.entries()) {
        const had = i === 0 ? startedAt : hops[i - 1]!.receivedAt!;
        expect(sentAt).toBeGreaterThan(had);
        const { sentAt: leftAt } = steps[left]!.hops[i]!;
        expect(receivedAt).toBeGreaterThanOrEqual(leftAt! + cluster.machines[left]!.latencyMs);
      }
      expect(ms.total).toBeGreaterThan(hops.at(-1)!.receivedAt!);
    }
  },
);

test('the delay of a slow link reaches every rank, each one ring step later than its left neighbour', () => {
  const { seed, machines } = createSimulatedCluster(4, 1);
  const slow = { seed, machines: machines.map((one, rank) => (rank === 1 ? { ...one, latencyMs: 500 } : one)) };
  const steps = simulateStep(slow, 0, BYTES, 'ring');
  const firstLate = steps.map(({ hops }) => hops.findIndex(({ receivedAt }) => receivedAt! > 500));
  expect(firstLate).toEqual([2, 3, 0, 1]);
});

/** Returns all events of the first steps. */
const eventsOf = (seed: number): unknown[] => {
  const run = simulatedRun(5, seed, 'ring', 'simulated');
  return [...run.beginning, ...Array.from({ length: 12 }, () => run.next()).flat()];
};

test('a simulated run is displayed like a real one, says that it is simulated, and is the same for the same seed', () => {
  const run = simulatedRun(32, 1, 'ring', 'simulated');
  let view = run.beginning.reduce(reduceTabView, initialTabView);
  for (let i = 0; i < 12; i++) view = run.next().reduce(reduceTabView, view);
  expect(view).toMatchObject({
    note: { message: 'simulated' },
    state: 'RUNNING',
    run: { worldSize: 32, last: { step: 11 } },
  });
  expect(view.run!.telemetry!.ranks).toHaveLength(32);
  expect(view.run!.trace!.hops).toHaveLength(62);
  expect(eventsOf(3)).toEqual(eventsOf(3));
  expect(eventsOf(3)).not.toEqual(eventsOf(4));
});

test.each(ALL_REDUCE_NAMES)(
  'a rank of a simulated run with %s sends and receives in the steps of its plan',
  (algorithm) => {
    const n = 12;
    const planner = allReducePlanner(algorithm, n, BYTES / 4);
    for (const [rank, { hops }] of simulateStep(createSimulatedCluster(n, 7), 0, BYTES, algorithm).entries()) {
      const moves = planner(rank);
      for (const { planStep, sentAt, receivedAt } of hops) {
        const has = (kind: string): boolean => moves.some((move) => move.step === planStep && move.kind === kind);
        expect([sentAt !== null, receivedAt !== null]).toEqual([has('send'), has('receive')]);
      }
    }
  },
);

test('a simulated run with auto uses the algorithm that a real run would use', () => {
  const run = simulatedRun(30, 1, 'auto', 'simulated');
  const view = [...run.beginning, ...run.next()].reduce(reduceTabView, initialTabView);
  expect(autoAlgorithm(30, BYTES)).toBe('two-level');
  expect(view.run).toMatchObject({ algorithm: 'two-level', trace: { algorithm: 'two-level' } });
});
