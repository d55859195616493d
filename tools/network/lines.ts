/** Lines that connect a tab to the internet. */
import type { OneWayOptions } from './oneWay.ts';

/**
 * A line. Round-trip time, jitter and loss are those between two tabs that both have such a line.
 */
export interface LineSpec {
  /** Rate to the internet. */
  upKbit: number;
  /** Rate from the internet. */
  downKbit: number;
  /** Round-trip time between two tabs. */
  roundTripMs: number;
  jitterMs: number;
  /** Probability that a packet from one tab to another is lost. */
  loss: number;
}

export const LINES = {
  campus: { upKbit: 200_000, downKbit: 200_000, roundTripMs: 2, jitterMs: 0, loss: 0 },
  home: { upKbit: 15_000, downKbit: 100_000, roundTripMs: 30, jitterMs: 1, loss: 0.001 },
} as const satisfies Record<string, LineSpec>;

/** Returns both directions of a line. A packet passes two lines: up on one, down on the other. */
export function directionsOf({ upKbit, downKbit, roundTripMs, jitterMs, loss }: LineSpec): {
  up: OneWayOptions;
  down: OneWayOptions;
} {
  const half = { delayMs: roundTripMs / 4, jitterMs: jitterMs / 2, loss: loss / 2 };
  return { up: { ...half, kbitPerSecond: upKbit }, down: { ...half, kbitPerSecond: downKbit } };
}
