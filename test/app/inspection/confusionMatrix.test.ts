import { expect, test } from 'vitest';
import { sumOfCounts, mostFrequentMistake } from '../../../src/app/inspection/confusionMatrix.ts';

const classes = ['cats', 'dogs', 'owls'];

test('mostFrequentMistake returns the most frequent mistake, or the first of several equally frequent mistakes', () => {
  const counts = [[90, 2, 0], [1, 50, 7], [7, 0, 60]]; // prettier-ignore
  expect(mostFrequentMistake({ classes, counts })).toEqual({ truth: 'dogs', answer: 'owls', times: 7 });
  expect(sumOfCounts(counts.flat())).toBe(217);
});

test('mostFrequentMistake returns null if every prediction is correct', () => {
  expect(mostFrequentMistake({ classes, counts: [[3, 0, 0], [0, 0, 0], [0, 0, 1]] })).toBeNull(); // prettier-ignore
});
