/**
 * Tests with random programs of collectives. A seed defines each program.
 * PEERGRAD_FUZZ_SEEDS=1-5000 runs the programs of these seeds, PEERGRAD_FUZZ_SEEDS=17 only that of
 * one seed.
 */
import { expect, test } from 'vitest';
import { PeergradError } from '../../src/util/errors.ts';
import { play, programOf, NOTIFIED, troubleOf, TROUBLES, type Outcome } from './programs.ts';

const [FIRST = 1, LAST = FIRST] = (process.env['PEERGRAD_FUZZ_SEEDS'] ?? '1-27').split('-').map(Number);
const SEEDS = Array.from({ length: LAST - FIRST + 1 }, (_, i) => FIRST + i);
const TIMEOUT = { timeout: 20_000 + SEEDS.length * 2000 };
/** Maximum number of outcomes that an error lists. */
const MAX_LISTED = 8;

/** @throws if any call had a wrong outcome. */
function expectNone(wrong: readonly Outcome[], what: string): void {
  if (wrong.length === 0) return;
  const list = wrong
    .slice(0, MAX_LISTED)
    .map(
      ({ rank, call, ranks, end, waitedMs }) =>
        `${call.number} ${call.op} of ranks ${ranks.join(', ')}, rank ${rank}: ${end} after ${waitedMs} ms`,
    );
  expect.fail(`${what}: ${wrong.length} calls ended wrong\n  ${list.join('\n  ')}`);
}

test('random programs of collectives have the results of a direct computation', TIMEOUT, async () => {
  for (const seed of SEEDS) {
    const outcomes = await play(programOf(seed), null);
    expectNone(
      outcomes.filter(({ end }) => end !== 'right'),
      `seed ${seed}`,
    );
  }
});

test(
  'if a rank fails, stops or is late, every call returns its result or an error, and groups without it continue',
  TIMEOUT,
  async () => {
    const failed = new Set<string>();
    for (const seed of SEEDS) {
      const program = programOf(seed);
      const trouble = troubleOf(program);
      const failures = (await play(program, trouble)).filter(({ end }) => end !== 'right');
      const mayWait = !NOTIFIED.includes(trouble.kind);
      const isRight = ({ end, ranks, waitedMs }: Outcome): boolean =>
        ranks.includes(trouble.rank) && end instanceof PeergradError && (mayWait || waitedMs === 0);
      expectNone(
        failures.filter((failure) => !isRight(failure)),
        `seed ${seed}, rank ${trouble.rank} ${trouble.kind} at call ${trouble.at}`,
      );
      if (failures.length > 0) failed.add(trouble.kind);
    }
    // If no call failed, the trouble would have tested nothing.
    if (SEEDS.length >= 3 * TROUBLES.length) expect([...failed].toSorted()).toEqual(TROUBLES.toSorted());
  },
);
