import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { trainTestSplit } from '../../src/jobs/trainTestSplit.ts';

const labelsOf = (sizes: number[]): number[] => sizes.flatMap((size, label) => Array<number>(size).fill(label));

test('every sample is in one part, and each class with two samples is in both parts, in about its proportion', () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(sizes, fc.nat(), (all, seed) => {
      const labels = labelsOf(all);
      fc.pre(Math.max(...all) > 1);
      const { train, test: held } = trainTestSplit(labels, seed);
      expect([...train, ...held].sort((a, b) => a - b)).toEqual(labels.map((_, i) => i));
      for (const [label, size] of all.entries()) {
        const count = [...held].filter((i) => labels[i] === label).length;
        expect(count).toBeGreaterThanOrEqual(size > 1 ? Math.max(1, Math.floor(size / 5)) : 0);
        expect(count).toBeLessThanOrEqual(size > 1 ? Math.ceil(size / 5) : 0);
      }
    }),
  );
});

test('a fifth of all samples is held out, even if no class has a number of samples that five divides', () => {
  expect(trainTestSplit(labelsOf(Array<number>(100).fill(9)), 1).test).toHaveLength(180);
});

test('equal labels and equal seeds give equal splits, and a different seed gives a different split', () => {
  const labels = labelsOf([30, 30]);
  expect(trainTestSplit(labels, 1)).toEqual(trainTestSplit(labels, 1));
  expect(trainTestSplit(labels, 2)).not.toEqual(trainTestSplit(labels, 1));
});

test('one sample is held out if each class has a single sample', () => {
  expect(trainTestSplit([0, 1, 2], 1).test).toHaveLength(1);
});
