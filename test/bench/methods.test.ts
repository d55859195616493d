/** The part of `bench methods` that runs no training: rows of the table. */
import { expect, test } from 'vitest';
import { METHODS, rowsOf } from '../../bench/methods.ts';
import type { TrialResult } from '../../bench/training/trial.ts';

const trial = (accuracy: number | null, valLoss: number, bytes: number): TrialResult => ({ accuracy, valLoss, bytes });

/** Results of ddp and of SparseLoCo; the other methods are like ddp. */
const results = (plain: TrialResult, sparse: TrialResult): TrialResult[][] =>
  METHODS.map(({ name }) => [name === 'SparseLoCo' ? sparse : plain]);

test('rows compare bytes and results with those of ddp, in points of accuracy or nats of loss', () => {
  const digits = rowsOf('mnist', results(trial(0.95, 1, 1e6), trial(0.9451, 1, 1000)));
  const text = rowsOf('gpt tiny', results(trial(null, 2, 3e5), trial(null, 2.029, 1000)));
  expect(digits.at(-1)).toMatchObject({ method: 'SparseLoCo', accuracy: 0.9451, bytesPerRank: 1000, fewer: 1000 });
  expect(digits.at(-1)!.difference).toBeCloseTo(0.49, 6);
  expect(text.at(-1)).not.toHaveProperty('accuracy');
  expect(text.at(-1)!.difference).toBeCloseTo(0.029, 6);
});
