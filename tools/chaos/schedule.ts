/** Plans the faults: a pure function of the seed. */
import { createRng, mixSeed, permutation } from '../../src/util/rng.ts';
import type { FaultKind } from './faults.ts';

export interface PlannedFault {
  /** Earliest time, in milliseconds after all tabs train. */
  at: number;
  kind: FaultKind;
  /**
   * The affected seat: tabs have seats 0 .. tabs-1 and a copy one more, so that a plan needs no
   * names. Unused for the server's fault.
   */
  seat: number;
}

/** Fewest tabs: with fewer, one would be alone while another is away. */
export const MIN_TABS = 3;

/** Sequences of faults after which the number of tabs is the same as before. */
const EPISODES: readonly (readonly FaultKind[])[] = [
  ...([['close', 'join'], ['crash', 'join'], ['freeze'], ['cut'], ['edge'], ['server']] as const),
  // The copy is closed.
  ['duplicate', 'close'],
];

/** Milliseconds of undisturbed training at the start. */
const FIRST_MS = 5_000;
/**
 * Shortest time in milliseconds between two faults; up to twice as long is planned: some steps of a
 * slow machine.
 */
export const REST_MS = 2_000;
/**
 * Expected milliseconds of recovery after a fault on two cores without a GPU, where a joining tab
 * compiles its shaders beside those that train. They place faults in time, so that three minutes
 * contain all kinds; if recovery takes longer, the next fault waits.
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
 * Plans the faults of `minutes` in rounds, each with every kind in its own order. At most one tab
 * is away at a time: a lost tab is followed by a joining one, and a copy is closed again, or
 * neither occurs because time would be up.
 */
export function planFaults({ seed, minutes, tabs }: { seed: number; minutes: number; tabs: number }): PlannedFault[] {
  const rng = createRng(seed);
  const plan: PlannedFault[] = [];
  let at = FIRST_MS;
  for (let round = 0; ; round++) {
    for (const index of permutation(EPISODES.length, mixSeed(seed, round))) {
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
