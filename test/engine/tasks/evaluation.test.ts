import { expect, test } from 'vitest';
import { dutiesAfter, INTERMEDIATE_SAMPLES, testInterval } from '../../../src/engine/tasks/evaluation.ts';

test('within an epoch, a run evaluates no more samples than it trains on, even if each evaluation is on all held-out samples', () => {
  const task = { train: 60_000, test: 10_000 };
  expect(testInterval(task, { patience: null }, 32, 2000)).toBe(100);
  // 64 steps train on four times the 500 samples of an evaluation.
  expect(testInterval(task, { patience: null }, 32, 400)).toBe(63);
  expect(testInterval(task, { patience: 3 }, 32, 400)).toBe(Math.ceil(10_000 / 32));
  // An epoch always ends with an evaluation.
  expect(testInterval({ train: 64, test: 10_000 }, { patience: 3 }, 32, 400)).toBe(2);
});

test('evaluations happen after the first step and then at regular steps, the early ones on fewer samples', () => {
  const plan = { hashEvery: 1000, patience: null };
  const progress = { appliedIn: 0, previousAppliedIn: 0, losses: [], trainedMs: 0, verdicts: [] };
  const after = (step: number, patience: number | null = null) =>
    dutiesAfter(
      { ...progress, step, position: { epoch: 0, offset: step, parts: 1 }, evaluateEvery: 40 },
      { ...plan, patience },
      false,
    ).samples;
  const steps = Array.from({ length: 120 }, (_, i) => i + 1);
  const curve = steps.map((step) => [step, after(step)]).filter(([, samples]) => samples !== 0);
  expect(curve).toEqual([
    [1, 32],
    [10, 125],
    [20, 250],
    [40, INTERMEDIATE_SAMPLES],
    [80, INTERMEDIATE_SAMPLES],
    [120, INTERMEDIATE_SAMPLES],
  ]);
  // Losses of different samples cannot be compared.
  expect(steps.filter((step) => after(step, 3) > 0)).toEqual([40, 80, 120]);
});
