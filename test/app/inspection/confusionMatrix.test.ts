import { expect, test } from 'vitest';
import { sampleCount, mostConfused } from '../../../src/app/inspection/confusionMatrix.ts';

const classes = ['cats', 'dogs', 'owls'];

test('the most frequent mistake is found, the first of equals, and correct predictions do not count', () => {
  const counts = [[90, 2, 0], [1, 50, 7], [7, 0, 60]]; // prettier-ignore
  expect(mostConfused({ classes, counts })).toEqual({ truth: 'dogs', answer: 'owls', times: 7 });
  expect(sampleCount(counts.flat())).toBe(217);
});

test('without mistakes there is no most frequent one', () => {
  expect(mostConfused({ classes, counts: [[3, 0, 0], [0, 0, 0], [0, 0, 1]] })).toBeNull(); // prettier-ignore
});
