/** The part of `bench methods` that runs no training: rows of the table, and missed targets. */
import { expect, test } from 'vitest';
import { METHODS, methodsTable, rowsOf, shortfalls } from '../../bench/methods.ts';
import type { TrialResult } from '../../bench/training/trial.ts';

const trial = (accuracy: number | null, valLoss: number, bytes: number): TrialResult => ({
  ...{ accuracy, valLoss, bytes },
});

/** Results of ddp and of SparseLoCo; the other methods are like ddp. */
const results = (plain: TrialResult, sparse: TrialResult): TrialResult[][] =>
  METHODS.map(({ name }) => [name === 'SparseLoCo' ? sparse : plain]);

test('results that exactly meet the targets have no shortfall', () => {
  const digits = rowsOf('mnist', results(trial(0.95, 1, 1e6), trial(0.9451, 1, 999)));
  const text = rowsOf('gpt tiny', results(trial(null, 2, 3e5), trial(null, 2.029, 999)));
  expect(shortfalls([...digits, ...text])).toEqual([]);
  expect(digits.at(-1)).toMatchObject({ method: 'SparseLoCo', accuracy: 0.9451, bytesPerRank: 999 });
  expect(digits.at(-1)!.difference).toBeCloseTo(0.49, 6);
  expect(text.at(-1)).not.toHaveProperty('accuracy');
});

test('each missed target is named', () => {
  const digits = rowsOf('mnist', results(trial(0.95, 1, 1e6), trial(0.94, 1, 2000)));
  const text = rowsOf('gpt tiny', results(trial(null, 2, 3e5), trial(null, 2.05, 1e3)));
  expect(shortfalls([...digits, ...text])).toEqual([
    'mnist needs 500 times fewer bytes than ddp, not 1000 times',
    'mnist is 1.000 worse than ddp, but at most 0.5 is allowed',
    'gpt tiny is 0.050 worse than ddp, but at most 0.03 is allowed',
  ]);
});

test('the table has a row for each task and method', () => {
  const rows = rowsOf('mnist', results(trial(0.95, 1, 1e6), trial(0.94, 1, 1000)));
  expect(methodsTable(rows)).toContain('SparseLoCo');
  expect(methodsTable(rows).split('\n')).toHaveLength(METHODS.length + 2);
});
