/** Which faults come when: a pure function of the seed. */
import { createRng, mixSeed, permutation } from '../../src/util/rng.ts';
import type { FaultKind } from './faults.ts';

export interface PlannedFault {
  /** Not before so many milliseconds after all tabs train. */
  at: number;
  kind: FaultKind;
  /**
   * Whom it befalls: tabs sit on seats 0 .. tabs-1 and a copy on one more, so that a plan need not
   * know names. Meaningless for the server's.
   */
  seat: number;
}

/** Fewer would leave one tab alone while another is away. */
export const MIN_TABS = 3;

/** What follows from a fault, itself first: afterwards there are as many tabs as before. */
const EPISODES: readonly (readonly FaultKind[])[] = [
  ...([['close', 'join'], ['crash', 'join'], ['freeze'], ['cut'], ['edge'], ['server']] as const),
  // What is closed is the copy.
  ['duplicate', 'close'],
];

/** Milliseconds that the world trains undisturbed first. */
const FIRST_MS = 5_000;
/**
 * Milliseconds between two faults at least, and planned are up to twice as many: some steps of a
 * slow machine.
 */
export const REST_MS = 2_000;
/**
 * Milliseconds until all is well again after a fault, as expected on two cores without a GPU, where
 * a tab that joins compiles its shaders beside those that train. They place faults in time, so that
 * three minutes have all kinds; if it takes longer, the next fault waits.
 */
const EXPECTED_MS: Readonly<Record<FaultKind, number>> = {
  ...{ close: 3_000, crash: 6_000, freeze: 28_000, cut: 28_000, edge: 6_000, server: 10_000 },
  ...{ duplicate: 15_000, join: 15_000 },
};

/**
 * The faults of `minutes`. They come in rounds, each with every kind in an order of its own. At
 * most one tab is away at a time: one that is lost is followed by one that joins, and a copy is
 * closed again, or neither comes because time would be up.
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
