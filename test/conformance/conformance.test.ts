/**
 * Runs the conformance cases over memory links, with some of their world sizes; `npm run -s
 * conformance` runs all sizes. Cases that also run in tabs run once more on links that delay
 * frames, where frames arrive in other orders.
 */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { createRng } from '../../src/util/rng.ts';
import type { GroupCase } from './case.ts';
import { CASES } from './cases.ts';
import { delayedLinks } from './delayedLink.ts';
import { runCase } from './runner.ts';
import { SKIPPED } from './skipped.ts';
import { TAB_CASES } from './tabs.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');

/**
 * Selects world sizes up to 4, and 9, the smallest world with other algorithms. The smallest world
 * of a case is always selected.
 */
const isSampled = ({ worlds }: GroupCase, n: number): boolean => n <= 4 || n === 9 || n === Math.min(...worlds);

/** Rows of `test.each`: vitest would cut a `$title` to 40 characters. */
const rowsOf = <Case extends { number: number; title: string }>(cases: readonly Case[]) =>
  cases.map((entry) => [entry.number, entry.title, entry] as const);

describe('conformance case', () => {
  test.each(rowsOf(CASES.filter((entry) => !('isLong' in entry))))('%i: %s', async (_number, _title, entry) => {
    const accepts = (n: number): boolean => 'check' in entry || isSampled(entry, n);
    expect(await runCase(entry, { accepts })).toEqual([]);
  });
});

describe('conformance case over links that delay frames', () => {
  // Only cases that also run in tabs: the other cases do not depend on links, or take too long.
  const cases = CASES.filter((entry): entry is GroupCase => 'worlds' in entry && entry.inTabs === true);
  test.each(rowsOf(cases))('%i: %s', async (_number, _title, entry) => {
    const createPair = delayedLinks(createRng(entry.number));
    // Four ranks, the smallest world in which not all ranks are neighbours, or the largest smaller
    // world of the case.
    const largest = Math.max(...entry.worlds.filter((n) => n <= 4));
    expect(await runCase(entry, { accepts: (n) => n === largest, createPair })).toEqual([]);
  });
});

function command(...args: string[]) {
  const [tsx, main] = ['node_modules/.bin/tsx', 'test/conformance/main.ts'];
  return promisify(execFile)(tsx, [main, ...args], { cwd: ROOT });
}

describe('the conformance command', () => {
  test('prints its report as JSON on stdout, and progress on stderr', async () => {
    const { stdout, stderr } = await command('--json', '--case', '37');
    expect(JSON.parse(stdout)).toEqual({ cases: 1, passed: 1, failed: 0, skipped: [] });
    expect(stderr).toMatch(/^ok +37 .* assignBuckets fills buckets up to their size limits\n$/);
  });

  test('reports why a case does not apply', async () => {
    const { stdout } = await command('--json', '--case', '48');
    const skipped = SKIPPED.filter((candidate) => candidate.case === 48);
    expect(JSON.parse(stdout)).toEqual({ cases: 0, passed: 0, failed: 0, skipped });
  });

  test('rejects a case that does not exist', async () => {
    await expect(command('--case', '4')).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringContaining('no such case'),
    });
  });
});

test('docs/CONFORMANCE.md lists the number of every case once, including cases that do not apply', async () => {
  const text = await readFile(path.resolve(ROOT, 'docs/CONFORMANCE.md'), 'utf8');
  const listed = [...text.matchAll(/^\| ([\d, ]+) \|/gm)].flatMap(([, cell]) => cell!.split(', ').map(Number));
  const run = new Set([...CASES, ...TAB_CASES].map(({ number }) => number));
  const numbers = [...run, ...SKIPPED.map((skipped) => skipped.case)];
  expect(listed.toSorted((a, b) => a - b)).toEqual(numbers.toSorted((a, b) => a - b));
});
