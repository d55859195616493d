/**
 * Random programs of collectives, each known by its seed. PEERGRAD_FUZZ_SEEDS=1-5000 plays more of
 * them, =17 that one alone.
 */
import { expect, test } from 'vitest';
import { PeergradError } from '../../src/util/errors.ts';
import { play, programOf, TOLD, troubleOf, TROUBLES, type Outcome } from './programs.ts';

const [FIRST = 1, LAST = FIRST] = (process.env['PEERGRAD_FUZZ_SEEDS'] ?? '1-27').split('-').map(Number);
const SEEDS = Array.from({ length: LAST - FIRST + 1 }, (_, i) => FIRST + i);
const TIMEOUT = { timeout: 20_000 + SEEDS.length * 2000 };
/** Outcomes that a failure lists. */
const MAX_LISTED = 8;

/** @throws where calls ended wrong. */
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

test('random programs of collectives give what a direct computation gives', TIMEOUT, async () => {
  for (const seed of SEEDS) {
    const outcomes = await play(programOf(seed), null);
    expectNone(
      outcomes.filter(({ end }) => end !== 'right'),
      `seed ${seed}`,
    );
  }
});

test(
  'where a rank is in trouble every call ends, right or with an error, and groups without it go on',
  TIMEOUT,
  async () => {
    const failed = new Set<string>();
    for (const seed of SEEDS) {
      const program = programOf(seed);
      const trouble = troubleOf(program);
      const failures = (await play(program, trouble)).filter(({ end }) => end !== 'right');
      const mayWait = !TOLD.includes(trouble.kind);
      const isRight = ({ end, ranks, waitedMs }: Outcome): boolean =>
        ranks.includes(trouble.rank) && end instanceof PeergradError && (mayWait || waitedMs === 0);
      expectNone(
        failures.filter((failure) => !isRight(failure)),
        `seed ${seed}, rank ${trouble.rank} ${trouble.kind} at call ${trouble.at}`,
      );
      if (failures.length > 0) failed.add(trouble.kind);
    }
    // Trouble that fails no call tests nothing.
    if (SEEDS.length >= 3 * TROUBLES.length) expect([...failed].toSorted()).toEqual(TROUBLES.toSorted());
  },
);
