import { expect, test } from 'vitest';
import { sampleCount, mostConfused } from '../../../src/app/inspection/confusionMatrix.ts';

const classes = ['cats', 'dogs', 'owls'];

test('what is most often taken for another is told, of equals the first, and what is right does not count', () => {
  const counts = [[90, 2, 0], [1, 50, 7], [7, 0, 60]]; // prettier-ignore
  expect(mostConfused({ classes, counts })).toEqual({ truth: 'dogs', answer: 'owls', times: 7 });
  expect(sampleCount(counts.flat())).toBe(217);
});

test('where each is taken for what it is there is no worst', () => {
  expect(mostConfused({ classes, counts: [[3, 0, 0], [0, 0, 0], [0, 0, 1]] })).toBeNull(); // prettier-ignore
});
