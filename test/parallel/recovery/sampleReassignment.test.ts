import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  assignSamples,
  type AssignedWindow,
  type RetainedGradient,
} from '../../../src/parallel/recovery/sampleReassignment.ts';

const fresh: AssignedWindow = { epoch: 1, offset: 20, size: 7, assignedIn: 5 };
const old: AssignedWindow = { epoch: 1, offset: 20, size: 9, assignedIn: 3 };
const retained = (window: AssignedWindow, ...positions: number[]): RetainedGradient => ({
  window,
  positions: Uint32Array.from(positions),
});

/** The assignments of all ranks. */
const assignAll = (retainedGradients: (RetainedGradient | null)[], batchSize = 4) =>
  retainedGradients.map((_, rank) => assignSamples(fresh, retainedGradients, { rank, batchSize }));
const partsOf = (assignments: ReturnType<typeof assignAll>) => assignments.map(({ positions }) => [...positions]);

describe('an assignment of samples to ranks', () => {
  test('gives each of n ranks every n-th sample of a new window', () => {
    const assignments = assignAll([null, null, null]);
    expect(partsOf(assignments)).toEqual([
      [0, 3, 6],
      [1, 4],
      [2, 5],
    ]);
    for (const { window, microBatches } of assignments) expect([window, microBatches]).toEqual([fresh, 1]);
  });

  test('divides samples without a retained gradient among all ranks, in as many micro-batches as needed', () => {
    const assignments = assignAll([retained(old, 0, 1), null], 2);
    expect(assignments.map(({ window }) => window)).toEqual([old, old]);
    expect(assignments.map(({ retains }) => retains)).toEqual([true, false]);
    expect(partsOf(assignments)).toEqual([
      [2, 4, 6, 8],
      [3, 5, 7],
    ]);
    expect(assignments.map(({ microBatches }) => microBatches)).toEqual([2, 2]);
  });

  test('uses the window that was assigned last, if retained gradients belong to different windows', () => {
    const later = { ...old, size: 4, assignedIn: 4 };
    const assignments = assignAll([retained(old, 0, 1, 2, 3, 4), retained(later, 1), retained(old, 7)]);
    expect(assignments.map(({ retains }) => retains)).toEqual([false, true, false]);
    expect(assignments[0]!.window).toEqual(later);
    expect(partsOf(assignments)).toEqual([[0], [2], [3]]);
  });

  test('keeps the gradient of the lowest rank if several ranks retain the same sample', () => {
    const assignments = assignAll([retained(old, 0, 1), retained(old, 1, 2), retained(old, 2, 3)]);
    expect(assignments.map(({ retains }) => retains)).toEqual([true, false, true]);
    expect(partsOf(assignments)).toEqual([[4, 7], [5, 8], [6]]);
  });

  test('has one empty micro-batch per rank if all samples are retained', () => {
    const assignments = assignAll([retained(old, 0, 1, 2, 3, 4, 5, 6, 7, 8), null]);
    expect(partsOf(assignments)).toEqual([[], []]);
    expect(assignments.map(({ microBatches }) => microBatches)).toEqual([1, 1]);
  });

  test('uses each sample once, whatever gradients ranks retain, and makes no micro-batch too large', () => {
    const anyWindow = fc.constantFrom(fresh, old, { ...old, assignedIn: 4 });
    const anyRetained = fc.option(
      anyWindow.chain((of) =>
        fc
          .uniqueArray(fc.nat(of.size - 1), { minLength: 1, maxLength: of.size })
          .map((positions) => retained(of, ...positions)),
      ),
    );
    fc.assert(
      fc.property(
        fc.array(anyRetained, { minLength: 1, maxLength: 6 }),
        fc.integer({ min: 1, max: 5 }),
        (all, size) => {
          const assignments = assignAll(all, size);
          const [{ window, microBatches }] = assignments as [ReturnType<typeof assignSamples>];
          const counted = assignments.flatMap(({ retains, positions }, rank) => [
            ...(retains ? all[rank]!.positions : []),
            ...positions,
          ]);
          expect(counted.sort((a, b) => a - b)).toEqual(Array.from({ length: window.size }, (_, i) => i));
          for (const one of assignments) {
            expect([one.window, one.microBatches]).toEqual([window, microBatches]);
            expect(one.positions.length).toBeLessThanOrEqual(microBatches * size);
          }
        },
      ),
    );
  });
});
