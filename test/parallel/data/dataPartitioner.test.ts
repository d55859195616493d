import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DataPartitioner } from '../../../src/parallel/data/dataPartitioner.ts';
import { UsageError } from '../../../src/util/errors.ts';

function partsOf(length: number, fractions: number[], seed?: number): number[][] {
  const partitioner = new DataPartitioner(length, fractions, seed);
  return fractions.map((_, part) => [...partitioner.use(part)]);
}

const byValue = (a: number, b: number): number => a - b;

describe('DataPartitioner', () => {
  test("has the tutorial's parts of 70, 20 and 10 % by default", () => {
    const partitioner = new DataPartitioner(1000);
    expect([0, 1, 2].map((part) => partitioner.use(part).length)).toEqual([700, 200, 100]);
  });

  test('has disjoint parts that cover all samples, if the fractions divide the number of samples evenly', () => {
    const all = partsOf(1000, [0.7, 0.2, 0.1]).flat();
    expect(all.toSorted(byValue)).toEqual(Array.from({ length: 1000 }, (_, i) => i));
  });

  test('never uses a sample twice, and loses less than one sample per part', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 20, max: 500 }),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 6 }),
        (length, weights) => {
          const sum = weights.reduce((a, b) => a + b);
          fc.pre(weights.every((weight) => (weight / sum) * length >= 1));
          const all = partsOf(
            length,
            weights.map((weight) => weight / sum),
          ).flat();
          expect(new Set(all).size).toBe(all.length);
          expect(all.every((index) => index >= 0 && index < length)).toBe(true);
          expect(length - all.length).toBeLessThan(weights.length);
        },
      ),
    );
  });

  test('has equally large parts for equal fractions, so that ranks have equally many batches', () => {
    expect(partsOf(100, [1 / 3, 1 / 3, 1 / 3]).map((part) => part.length)).toEqual([33, 33, 33]);
    expect(partsOf(100, [0.29, 0.57]).map((part) => part.length)).toEqual([29, 57]);
  });

  test('has the same parts for the same seed, and different parts for different seeds', () => {
    expect(partsOf(50, [0.5, 0.5], 7)).toEqual(partsOf(50, [0.5, 0.5], 7));
    expect(partsOf(50, [0.5, 0.5], 7)).not.toEqual(partsOf(50, [0.5, 0.5], 8));
    expect(partsOf(8, [0.5, 0.25])).toEqual([
      [1, 2, 3, 7],
      [6, 5],
    ]);
  });

  test('returns the samples of a part, or their indices', () => {
    const names = ['a', 'b', 'c', 'd', 'e'];
    const part = new DataPartitioner(names, [0.4, 0.6]).use(1);
    expect(part.length).toBe(3);
    expect([...part]).toEqual(Array.from(part.indices, (index) => names[index]));
    expect([0, 1, 2].map((i) => part.at(i))).toEqual([...part]);
    const values = new DataPartitioner(Float32Array.of(10, 20, 30, 40), [1]).use(0);
    expect([...values].toSorted(byValue)).toEqual([10, 20, 30, 40]);
  });

  test.each([
    [10, [], 'No fractions were passed'],
    [10, [0.5, NaN], 'The fraction of part 1 is NaN'],
    [10, [0.5, 0], 'The fraction of part 1 is 0'],
    [10, [-0.1], 'The fraction of part 0 is -0.1'],
    [10, [0.7, 0.4], 'add up to 1.1'],
    [10, [Infinity], 'add up to Infinity'],
    [3, [0.7, 0.2, 0.1], 'Part 1 would have no samples, because it is 0.2 of 3 samples'],
    [0, [1], 'The number of samples is 0'],
    [1.5, [1], 'The number of samples is 1.5'],
  ])('rejects %o samples with fractions %o', (length, fractions, text) => {
    const call = (): unknown => new DataPartitioner(length, fractions);
    expect(call).toThrow(UsageError);
    expect(call).toThrow(text);
  });

  test('rejects a part and a sample that do not exist', () => {
    const partitioner = new DataPartitioner(10, [0.5]);
    expect(() => partitioner.use(1)).toThrow('There is no part 1. Pass one of 0 .. 0.');
    expect(() => partitioner.use(0).at(5)).toThrow('no sample 5. Pass one of 0 .. 4.');
    expect(() => partitioner.use(0).at(-1)).toThrow(UsageError);
  });
});
