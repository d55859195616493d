import { expect, test } from 'vitest';
import { maxKeptSampleBytes } from '../../src/jobs/sampleMemory.ts';

test('a tab keeps fewer samples on a machine with little memory', () => {
  const MIB = 1024 * 1024;
  expect([undefined, 32, 8, 2, 0.5].map((gigabytes) => Math.round(maxKeptSampleBytes(gigabytes) / MIB))).toEqual([
    256, 256, 256, 64, 16,
  ]);
});
