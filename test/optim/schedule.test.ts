import { expect, test } from 'vitest';
import { learningRateAt } from '../../src/optim/schedule.ts';

const cosine = { learningRate: 1, schedule: 'cosine', warmupSteps: 0 } as const;

test('the rate of a constant schedule never changes', () => {
  for (const step of [0, 1, 999]) {
    expect(learningRateAt({ learningRate: 0.002, schedule: 'constant', warmupSteps: 0 }, step, step / 1000)).toBe(
      0.002,
    );
  }
});

test('a cosine schedule falls to a tenth of the rate, and has the values of Math.cos', () => {
  for (let done = 0; done <= 1; done += 1 / 64) {
    expect(learningRateAt(cosine, 0, done)).toBeCloseTo(0.1 + 0.45 * (1 + Math.cos(Math.PI * done)), 12);
  }
  expect(learningRateAt(cosine, 0, 0)).toBe(1);
  expect(learningRateAt(cosine, 0, 1)).toBeCloseTo(0.1, 12);
});

test('the rate of a warm-up rises in equal steps up to the full rate', () => {
  const rates = [0, 1, 2, 3, 4].map((step) =>
    learningRateAt({ ...cosine, schedule: 'constant', warmupSteps: 4 }, step, 0),
  );
  expect(rates).toEqual([0.25, 0.5, 0.75, 1, 1]);
});

test('the rate of a range test rises from 1e-7 to 10 by a constant factor, whatever rate is given', () => {
  const plan = { learningRate: 0.3, measure: 'learning-rate', schedule: 'constant', warmupSteps: 10 } as const;
  for (let step = 0; step <= 80; step++) {
    expect(learningRateAt(plan, step, step / 80) / 10 ** (step / 10 - 7)).toBeCloseTo(1, 12);
  }
});
