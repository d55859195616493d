import { describe, expect, test } from 'vitest';
import { allReducePlanner, chunkCountOf } from '../../src/collectives/plans/algorithms.ts';
import { allReduceSteps, planStepNumbersOfRank } from '../../src/collectives/plans/planSteps.ts';
import { ringTransfersAt } from '../../src/collectives/plans/ringPlan.ts';
import { ALL_REDUCE_NAMES, whyAlgorithmCannotRun, type AllReduceName } from '../../src/spec/algorithms.ts';
import { runWorld } from '../../src/testing/index.ts';

const WORLDS = [2, 3, 4, 5, 6, 8, 9, 12, 16, 30, 64];
const CASES = ALL_REDUCE_NAMES.flatMap((name) =>
  WORLDS.filter((n) => whyAlgorithmCannotRun(name, n) === null).map((n) => [name, n] as const),
);

/** Returns the sums of all ranks after the steps, if rank r has the number 2 ** r in each chunk. */
function sumsOf(name: AllReduceName, n: number): bigint[][] {
  const { chunks, steps } = allReduceSteps(name, n);
  const values = Array.from({ length: n }, (_, rank) => Array.from({ length: chunks }, () => 1n << BigInt(rank)));
  for (const { transfers } of steps) {
    const sent = transfers.map(({ from, first, count }) => values[from]!.slice(first, first + count));
    for (const [i, { to, first, reduces }] of transfers.entries()) {
      for (const [k, value] of sent[i]!.entries())
        values[to]![first + k] = reduces ? values[to]![first + k]! + value : value;
    }
  }
  return values;
}

describe.each(CASES)('the steps of %s over %i ranks', (name, n) => {
  const { chunks, steps } = allReduceSteps(name, n);

  test('add the tensor of every rank exactly once to every chunk on every rank', () => {
    expect(chunks).toBe(chunkCountOf(name, n));
    const all = (1n << BigInt(n)) - 1n;
    for (const row of sumsOf(name, n)) expect(row.every((sum) => sum === all)).toBe(true);
  });

  test('contain exactly the moves that the plans of all ranks contain, and each rank sends at most once in a step', () => {
    const planner = allReducePlanner(name, n, chunks);
    const moves = Array.from({ length: n }, (_, rank) => planner(rank).map((move) => ({ ...move, rank }))).flat();
    for (const kind of ['send', 'receive']) {
      const expected = moves
        .filter((move) => move.kind === kind)
        .map(({ rank, peer, step, start, end, how }) => ({
          planStep: step,
          ...(kind === 'send' ? { from: rank, to: peer } : { from: peer, to: rank }),
          ...{ first: start, count: end - start, reduces: how !== 'copy' },
        }))
        .sort((a, b) => a.planStep - b.planStep || a.from - b.from);
      expect(steps.flatMap(({ planStep, transfers }) => transfers.map((one) => ({ planStep, ...one })))).toEqual(
        expected,
      );
    }
    for (const { transfers } of steps) {
      const senders = transfers.map(({ from }) => from);
      expect(senders).toEqual([...new Set(senders)].sort((a, b) => a - b));
    }
    for (let rank = 0; rank < n; rank++) {
      const own = steps.filter(({ transfers }) => transfers.some(({ from, to }) => from === rank || to === rank));
      expect(own.map(({ planStep }) => planStep)).toEqual(planStepNumbersOfRank(name, n, rank));
    }
  });

  test('are numbered within each phase', () => {
    for (const [i, { phase, hop, hops }] of steps.entries()) {
      expect(steps.filter((one) => one.phase === phase)).toHaveLength(hops);
      expect(hop).toBe(steps[i - 1]?.phase === phase ? steps[i - 1]!.hop + 1 : 0);
    }
  });
});

test('steps of the ring algorithm are its ring steps', () => {
  const { steps } = allReduceSteps('ring', 5);
  expect(steps.map(({ transfers }) => transfers.map(({ from, to, first }) => [from, to, first]))).toEqual(
    steps.map(({ planStep }) => ringTransfersAt(5, planStep).map(({ from, to, chunk }) => [from, to, chunk])),
  );
});

test.each<[AllReduceName, number, string]>([
  ['ring', 3, 'reduce-scatter 2, all-gather 2'],
  ['two-level', 6, 'group-reduce-scatter 1, across-reduce-scatter 2, across-all-gather 2, group-all-gather 1'],
  ['halving-doubling', 8, 'halving 3, doubling 3'],
  ['halving-doubling', 6, 'fold 1, halving 2, doubling 2, unfold 1'],
  ['doubling', 8, 'exchange 3'],
  ['doubling', 5, 'fold 1, exchange 2, unfold 1'],
])('%s over %i ranks has the phases %s', (name, n, phases) => {
  const { steps } = allReduceSteps(name, n);
  const first = steps.filter(({ hop }) => hop === 0);
  expect(first.map(({ phase, hops }) => `${phase} ${hops}`).join(', ')).toBe(phases);
});

test('a single rank has no steps', () => {
  for (const name of ALL_REDUCE_NAMES) expect(allReduceSteps(name, 1).steps).toEqual([]);
});

test.each(ALL_REDUCE_NAMES)('an all-reduce by %s has a trace with the time of each step', async (algorithm) => {
  const n = 6;
  const traces = await runWorld(n, async (group) => {
    const work = group.allReduce(new Float32Array(48), { algorithm });
    await work;
    return work.trace!;
  });
  const { steps } = allReduceSteps(algorithm, n);
  for (const [rank, trace] of traces.entries()) {
    expect(trace.algorithm).toBe(algorithm);
    expect(trace.hops.map(({ planStep }) => planStep)).toEqual(planStepNumbersOfRank(algorithm, n, rank));
    for (const { planStep, sentAt, receivedAt } of trace.hops) {
      const { transfers } = steps.find((one) => one.planStep === planStep)!;
      expect(sentAt !== null).toBe(transfers.some(({ from }) => from === rank));
      expect(receivedAt !== null).toBe(transfers.some(({ to }) => to === rank));
    }
  }
});
