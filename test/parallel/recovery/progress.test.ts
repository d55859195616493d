import { expect, test } from 'vitest';
import {
  isRunLimitReached,
  recordEvaluation,
  initialTrainingProgress,
} from '../../../src/parallel/recovery/progress.ts';

const BOUNDS = { epochs: 100, maxSteps: null, maxMinutes: null, patience: 2 };

test('a run ends after `patience` evaluations without a lower loss, and keeps the lowest loss', () => {
  const progress = initialTrainingProgress();
  const losses = [3, 2, 2.5, 1.5, 1.5, 1.6];
  const seen = losses.map((loss) => {
    progress.step += 10;
    return [recordEvaluation(progress, loss), isRunLimitReached(progress, BOUNDS)];
  });
  // An equal loss is no improvement.
  expect(seen).toEqual([
    [true, false],
    [true, false],
    [false, false],
    [true, false],
    [false, false],
    [false, true],
  ]);
  expect(progress.verdicts.at(-1)).toEqual({ step: 60, best: 1.5, bestStep: 40, since: 2 });
  expect(isRunLimitReached(progress, { ...BOUNDS, patience: null })).toBe(false);
});

test('a repeated evaluation counts once, with its latest result', () => {
  const progress = initialTrainingProgress();
  recordEvaluation({ ...progress, step: 1 }, 9);
  for (const [step, loss] of [
    [5, 2],
    [10, 1],
    [10, 2.5],
    [10, 2.5],
  ] as const) {
    progress.step = step;
    recordEvaluation(progress, loss);
  }
  expect(progress.verdicts.at(-1)).toEqual({ step: 10, best: 2, bestStep: 5, since: 1 });
});
