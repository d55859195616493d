import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ringCellsAfter, ringFrameAt } from '../../../src/app/ring/frameAt.ts';
import {
  currentChunkValues,
  rankVectorsExtentOf,
  formatCellValue,
  formatChunkSums,
  chunkValuesOf,
} from '../../../src/app/ring/numbers.ts';
import { simulatedTrace } from '../../../src/app/ring/simulatedTrace.ts';
import { allReduceSteps } from '../../../src/collectives/plans/planSteps.ts';
import { ringStepCount } from '../../../src/collectives/plans/ringPlan.ts';
import { runWorld } from '../../../src/testing/index.ts';

const NUMBERS = [[3], [5], [2], [7]].map(([own]) => [own!, 0, 0, 0]);

describe('the numbers of a chunk', () => {
  test('are added in the order of the ring, starting with the first sender of the chunk', () => {
    // Rank 1 is the first sender of chunk A, and rank 0 has its sum at the end.
    const done = ringFrameAt(simulatedTrace(4, 'ring'), 4, Infinity);
    expect(chunkValuesOf(done.cells[2]![0]!, NUMBERS, 0)).toEqual({
      ranks: [1, 2, 3, 0],
      elements: [{ terms: [5, 2, 7, 3], sums: [5, 7, 14, 17] }],
    });
    const begun = ringFrameAt(simulatedTrace(4, 'ring'), 4, 0);
    expect(chunkValuesOf(begun.cells[2]![0]!, NUMBERS, 0)).toEqual({
      ranks: [2],
      elements: [{ terms: [2], sums: [2] }],
    });
  });

  test('are written as a sum with negative terms in brackets, and without rounding errors', () => {
    const numbers = [
      [3, 0.1],
      [-5, 0.2],
      [2, 0],
    ].map((own) => [...own, 0]);
    expect(formatChunkSums([0, 1, 2], numbers, 0)).toEqual(['3 + (−5) + 2 = 0']);
    expect(formatChunkSums([0, 1], numbers, 1)).toEqual(['0.1 + 0.2 = 0.3']);
    expect(formatChunkSums([1], numbers, 0)).toEqual(['−5']);
  });

  test('are an empty list for a chunk without numbers, because the vector has fewer numbers than ranks', () => {
    expect(chunkValuesOf([0, 1, 2], [[1], [2], [3]], 1).elements).toEqual([]);
  });

  test('never exceed the largest value and the longest text that rankVectorsExtentOf returns', () => {
    const vectors = fc.tuple(fc.integer({ min: 2, max: 6 }), fc.integer({ min: 1, max: 9 })).chain(([n, length]) =>
      fc.array(fc.array(fc.integer({ min: -99, max: 99 }), { minLength: length, maxLength: length }), {
        minLength: n,
        maxLength: n,
      }),
    );
    fc.assert(
      fc.property(vectors, fc.nat(10), (numbers, steps) => {
        const n = numbers.length;
        const { largest, letters } = rankVectorsExtentOf(numbers);
        ringCellsAfter(allReduceSteps('ring', n), Math.min(steps, ringStepCount(n))).forEach((row) =>
          row.forEach((parts, chunk) => {
            const values = currentChunkValues(parts, numbers, chunk);
            for (const value of values) expect(Math.abs(value)).toBeLessThanOrEqual(largest);
            expect(values.map(formatCellValue).join(', ').length).toBeLessThanOrEqual(letters);
          }),
        );
      }),
    );
  });

  test('are at the end equal to the result of a real all-reduce', async () => {
    const numbers = Array.from({ length: 3 }, (_, rank) => Array.from({ length: 7 }, (__, i) => 10 * rank + i));
    const reduced = await runWorld(3, async (group) => {
      const values = Float32Array.from(numbers[group.rank]!);
      await group.allReduce(values);
      return [...values];
    });
    const done = ringFrameAt(simulatedTrace(3, 'ring'), 3, Infinity);
    const shown = reduced.map((_, rank) =>
      [0, 1, 2].flatMap((chunk) => currentChunkValues(done.cells[rank]![chunk]!, numbers, chunk)),
    );
    expect(shown).toEqual(reduced);
  });
});
