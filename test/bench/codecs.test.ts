/** The part of `bench codecs` that runs no training: rows of the table, and missed targets. */
import { expect, test } from 'vitest';
import { codecTables, section, rowsOf, shortfalls, VARIANTS } from '../../bench/codecs.ts';
import type { TrialResult } from '../../bench/training/trial.ts';

const trial = (accuracy: number, bytes: number): TrialResult => ({
  accuracy,
  valLoss: 1,
  loss: 1,
  steps: 10,
  bytes,
  stepMs: 5,
});

/** Results that just meet every target. */
const good = VARIANTS.map(({ points, fewer }, i) => {
  const accuracy = points === null ? 0.95 : 0.95 - points / 100 + 1e-6;
  const bytes = (i === 0 ? 1000 : 999) / fewer;
  return [trial(accuracy - 0.01, bytes), trial(accuracy + 0.01, bytes)];
});

test('a row has means over the seeds, and compares these means with those of fp32', () => {
  const rows = rowsOf(good);
  expect(rows.map(({ name }) => name)).toEqual(VARIANTS.map(({ name }) => name));
  const int8 = rows[2]!;
  expect(int8.accuracy).toBeCloseTo(0.947, 4);
  expect(int8.points).toBeCloseTo(-0.3, 2);
  expect(int8).toMatchObject({ bytesPerStep: int8.bytes / 10, stepMs: 5 });
  expect(int8.fewer).toBeCloseTo(3.7, 1);
  expect(shortfalls(rows)).toEqual([]);
});

test('a codec that is less accurate or sends more than allowed is reported with the measured and the allowed value', () => {
  const trials = good.map((own) => [...own]);
  trials[1] = [trial(0.94, 500)];
  trials[4] = [trial(0.95, 100), trial(NaN, 100)];
  const sentences = shortfalls(rowsOf(trials));
  expect(sentences[0]).toBe('fp16 is 1.00 points less accurate than fp32, but at most 0.3 are allowed');
  expect(sentences.filter((one) => one.startsWith('PowerSGD'))).toHaveLength(2);
  expect(sentences).toContain('PowerSGD sends 10.0 times fewer bytes than fp32, but 30 times fewer are required');
});

test('the section for docs/BENCHMARKS.md contains all tables', () => {
  const timed = [{ codec: 'fp32', ms: 1700, faster: 1, bytesSent: 6_295_000, error: 0 }];
  const result = {
    tabs: 4,
    bytes: 4 * 2 ** 20,
    local: timed,
    rate: '20mbit',
    capped: timed,
    seeds: 2,
    isMnist: true,
    trained: rowsOf(good),
  };
  const text = section(result);
  expect(text).toContain(codecTables(result));
  for (const word of ['one machine', 'lines of 20mbit', 'MNIST', 'PowerSGD', '4.0 MiB']) expect(text).toContain(word);
  expect(section({ ...result, capped: null, isMnist: false })).not.toContain('lines of');
});
