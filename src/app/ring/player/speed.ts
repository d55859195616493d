/** The speed of the player, as a multiplier on a scale of doublings; pure. */
import { clamp } from '../../../util/clamp.ts';

/**
 * Speeds are limited to the range from 2 ** -MAX_SPEED_DOUBLINGS to 2 ** MAX_SPEED_DOUBLINGS; 1 is
 * the default speed.
 */
export const MAX_SPEED_DOUBLINGS = 3;

const FRACTIONS: Readonly<Record<number, string>> = { 0.125: '⅛', 0.25: '¼', 0.5: '½' };

/**
 * Returns the speed in the query of an address, limited to the supported range. Returns 1 if the
 * query has no speed, or if its speed is not a positive number.
 */
export function playbackSpeedFromQuery(query: URLSearchParams): number {
  const speed = Number(query.get('speed') ?? 1);
  return speed > 0 ? within(speed) : 1;
}

/** Returns the text of a speed for an address; `null` for the default speed. */
export function playbackSpeedForAddress(speed: number): string | null {
  return speed === 1 ? null : String(Number(speed.toPrecision(3)));
}

export function nextPlaybackSpeed(speed: number, direction: 1 | -1): number {
  const doublings = Math.log2(speed);
  // A speed that is almost a power of two is treated as this power of two.
  const next = direction > 0 ? Math.floor(doublings + 1e-6) + 1 : Math.ceil(doublings - 1e-6) - 1;
  return within(2 ** next);
}

/** Returns a speed as text: `½×`, `1.4×`, `8×`. */
export function formatPlaybackSpeed(speed: number): string {
  return `${FRACTIONS[speed] ?? Number(speed.toPrecision(2))}×`;
}

function within(speed: number): number {
  return clamp(speed, 2 ** -MAX_SPEED_DOUBLINGS, 2 ** MAX_SPEED_DOUBLINGS);
}
