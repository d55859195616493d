import { expect, test } from 'vitest';
import { sampleCount, mostConfused } from '../../../src/app/inspection/confusionMatrix.ts';

const classes = ['cats', 'dogs', 'owls'];

test('the most frequent mistake is found: correct predictions are ignored, and the first of equal mistakes is chosen', () => {
  const counts = [[90, 2, 0], [1, 50, 7], [7, 0, 60]]; // prettier-ignore
  expect(mostConfused({ classes, counts })).toEqual({ truth: 'dogs', answer: 'owls', times: 7 });
  expect(sampleCount(counts.flat())).toBe(217);
});

test('there is no most frequent mistake if there are no mistakes', () => {
  expect(mostConfused({ classes, counts: [[3, 0, 0], [0, 0, 0], [0, 0, 1]] })).toBeNull(); // prettier-ignore
});
