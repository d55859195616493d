import { describe, expect, test } from 'vitest';
import { moveDependencies } from '../../src/collectives/plans/moveProgress.ts';
import * as plans from '../../src/collectives/plans/plans.ts';
import type { PlanMove, CollectivePlan } from '../../src/collectives/plans/plans.ts';

const PLANNERS: [string, (rank: number, n: number) => CollectivePlan][] = [
  ['ring', (rank, n) => plans.planRingAllReduce(rank, n, 2 * n + 1)],
  ['ring of fewer elements than ranks', (rank, n) => plans.planRingAllReduce(rank, n, n - 1)],
  ['two-level', (rank, n) => plans.planTwoLevelAllReduce(rank, n, 2 * n + 1)],
  ['halving-doubling', (rank, n) => plans.planHalvingDoublingAllReduce(rank, n, 2 * n + 1)],
  ['doubling', (rank, n) => plans.planRecursiveDoublingAllReduce(rank, n, 3)],
  ['Bruck', (rank, n) => plans.planBruckAllGather(rank, n, plans.evenDisplacements(2 * n + 1, n))],
  ['tree', (rank, n) => [...plans.planTreeReduce(rank, n, 1, 3), ...plans.planTreeBroadcast(rank, n, 1, 3)]],
  ['direct', (rank, n) => [...plans.planDirectReduce(rank, n, 1, 3), ...plans.planDirectBroadcast(rank, n, 1, 3)]],
];

/** Whether two moves touch the same elements of one array, and one of them writes. */
function conflict(a: PlanMove, b: PlanMove, inPlace: boolean): boolean {
  if (a.kind === 'send' && b.kind === 'send') return false;
  if (a.kind !== b.kind && !inPlace) return false;
  return Math.max(a.start, b.start) < Math.min(a.end, b.end);
}

/** Calls `check` with each rank's plan in worlds of many sizes. */
function eachPlan(planOf: (rank: number, n: number) => CollectivePlan, check: (plan: CollectivePlan) => void): void {
  for (const n of [2, 3, 4, 6, 7, 12]) for (let rank = 0; rank < n; rank++) check(planOf(rank, n));
}

describe.each(PLANNERS)('the dependencies of %s, in place and not in place', (_, planOf) => {
  const both = (check: (plan: CollectivePlan, inPlace: boolean) => void): void =>
    eachPlan(planOf, (plan) => {
      check(plan, true);
      check(plan, false);
    });

  test('order any two conflicting moves, directly or through other moves; moves without a conflict have no direct order', () => {
    both((plan, inPlace) => {
      const waits: Set<number>[] = [];
      for (const { before } of moveDependencies(plan, inPlace)) {
        waits.push(new Set(before.flatMap((move) => [move, ...waits[move]!])));
      }
      plan.forEach((later, i) => {
        const earlier = plan.slice(0, i).flatMap((move, j) => (conflict(move, later, inPlace) ? [j] : []));
        expect([...waits[i]!]).toEqual(expect.arrayContaining(earlier));
        expect(earlier).toEqual(expect.arrayContaining([...moveDependencies(plan, inPlace)[i]!.before]));
      });
    });
  });

  test('name as writers of a receive all earlier receives of the same elements, directly or through each other, and no other moves', () => {
    both((plan, inPlace) => {
      const needs = moveDependencies(plan, inPlace);
      const follows: Set<number>[] = [];
      for (const { writers } of needs) follows.push(new Set(writers.flatMap((move) => [move, ...follows[move]!])));
      plan.forEach((later, i) => {
        const earlier = plan
          .slice(0, i)
          .flatMap((move, j) => (move.kind === 'receive' && conflict(move, later, inPlace) ? [j] : []));
        if (later.kind === 'send') expect(needs[i]!.writers).toEqual([]);
        else {
          expect([...follows[i]!]).toEqual(expect.arrayContaining(earlier));
          expect(earlier).toEqual(expect.arrayContaining([...needs[i]!.writers]));
        }
      });
    });
  });
});
