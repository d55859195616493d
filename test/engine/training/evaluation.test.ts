import { expect, test } from 'vitest';
import { testInterval } from '../../../src/engine/training/evaluation.ts';

test('evaluations are so rare that no more samples are evaluated than trained on, even if `patience` makes each use all held-out samples', () => {
  const task = { train: 60_000, test: 10_000 };
  expect(testInterval(task, { patience: null }, 32, 400)).toBe(50);
  expect(testInterval(task, { patience: 3 }, 32, 400)).toBe(Math.ceil(10_000 / 32));
  // An epoch always ends with an evaluation.
  expect(testInterval({ train: 64, test: 10_000 }, { patience: 3 }, 32, 400)).toBe(2);
});
