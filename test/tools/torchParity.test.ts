/**
 * Tests that results are equal to PyTorch's. Skipped if PyTorch is not installed (Debian:
 * python3-torch).
 */
import { expect, test } from 'vitest';
import { compareWithTorch, SUITES } from '../../tools/torch-parity/parity.ts';
import { findTorch } from '../../tools/torch-parity/python.ts';

const torch = findTorch();

test.skipIf(torch === null).each(SUITES)('$name has the results of PyTorch', { timeout: 120_000 }, async (suite) => {
  const { cases, tolerance } = await compareWithTorch(torch!.python, suite);
  expect(cases.length).toBeGreaterThan(0);
  expect(cases.filter(({ difference }) => !(difference <= tolerance))).toEqual([]);
});
