import { expect, test } from 'vitest';
import { totalOf, worstOf } from '../../../src/app/inspection/confused.ts';

const classes = ['cats', 'dogs', 'owls'];

test('what is most often taken for another is told, of equals the first, and what is right does not count', () => {
  const counts = [[90, 2, 0], [1, 50, 7], [7, 0, 60]]; // prettier-ignore
  expect(worstOf({ classes, counts })).toEqual({ truth: 'dogs', answer: 'owls', times: 7 });
  expect(totalOf(counts.flat())).toBe(217);
});

test('where each is taken for what it is there is no worst', () => {
  expect(worstOf({ classes, counts: [[3, 0, 0], [0, 0, 0], [0, 0, 1]] })).toBeNull(); // prettier-ignore
});
