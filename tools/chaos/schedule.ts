/** Plans the faults: a pure function of the seed. */
import { createRng, mixSeed, seededPermutation } from '../../src/util/rng.ts';
import type { FaultKind } from './faults.ts';

export interface PlannedFault {
  /** Earliest time of the fault, in milliseconds after all tabs have begun to train. */
  at: number;
  kind: FaultKind;
  /**
   * The seat of the affected tab. Seats have numbers, so that a plan needs no names: tabs have the
   * seats 0 .. tabs-1, a copy has the next one. Not used for a fault of the server.
   */
  seat: number;
}

/**
 * The smallest number of tabs. With fewer tabs, a single tab would remain while another is away.
 */
export const MIN_TABS = 3;

/** Sequences of faults after which the number of tabs is the same as before. */
const EPISODES: readonly (readonly FaultKind[])[] = [
  ...([['close', 'join'], ['crash', 'join'], ['freeze'], ['cut'], ['edge'], ['server']] as const),
  // `close` closes the copy.
  ['duplicate', 'close'],
];

/** Milliseconds of undisturbed training at the start. */
const FIRST_MS = 5_000;
/**
 * The shortest time between two faults, in milliseconds: a few steps of a slow machine. The planned
 * time is up to twice as long.
 */
export const REST_MS = 2_000;
/**
 * Expected recovery after a fault in milliseconds, on two cores without a GPU, where a joining tab
 * compiles its shaders while others train. The plan uses these times, so that three minutes contain
 * all kinds of faults. If the recovery takes longer, the next fault waits.
 */
const EXPECTED_MS: Readonly<Record<FaultKind, number>> = {
  close: 3_000,
  crash: 6_000,
  freeze: 28_000,
  cut: 28_000,
  edge: 6_000,
  server: 10_000,
  duplicate: 15_000,
  join: 15_000,
};

/**
 * Plans the faults of `minutes` in rounds. Each round has every kind of fault, in an order of its
 * own. At most one tab is missing or extra at a time: after a lost tab, a new tab joins; after a
 * duplicate, the copy is closed. Two such faults are planned only if the time suffices for both.
 */
export function planFaults({ seed, minutes, tabs }: { seed: number; minutes: number; tabs: number }): PlannedFault[] {
  const rng = createRng(seed);
  const plan: PlannedFault[] = [];
  let at = FIRST_MS;
  for (let round = 0; ; round++) {
    for (const index of seededPermutation(EPISODES.length, mixSeed(seed, round))) {
      const episode = EPISODES[index]!;
      const seat = rng.below(tabs);
      const planned = episode.map((kind) => {
        const fault = { at, kind, seat: kind === 'close' && episode[0] === 'duplicate' ? tabs : seat };
        at += EXPECTED_MS[kind] + REST_MS + rng.below(REST_MS);
        return fault;
      });
      if (at > minutes * 60_000) return plan;
      plan.push(...planned);
    }
  }
}
