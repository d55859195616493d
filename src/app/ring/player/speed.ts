/** Speed of the player: a multiplier on a scale of doublings; pure. */

/** Doublings below and above the usual speed. */
export const DOUBLINGS = 3;

const FRACTIONS: Readonly<Record<number, string>> = { 0.125: '⅛', 0.25: '¼', 0.5: '½' };

/** The speed of an address; 1 if it is missing or not valid. */
export function speedIn(query: URLSearchParams): number {
  const speed = Number(query.get('speed') ?? 1);
  return speed > 0 ? within(speed) : 1;
}

/** The speed for an address; `null`: the usual one. */
export function speedForAddress(speed: number): string | null {
  return speed === 1 ? null : String(Number(speed.toPrecision(3)));
}

/** The next power of two. */
export function nextSpeed(speed: number, direction: 1 | -1): number {
  const doublings = Math.log2(speed);
  // Almost a power of two counts as one.
  const next = direction > 0 ? Math.floor(doublings + 1e-6) + 1 : Math.ceil(doublings - 1e-6) - 1;
  return within(2 ** next);
}

/** `½×`, `1.4×`, `8×`. */
export function speedText(speed: number): string {
  return `${FRACTIONS[speed] ?? Number(speed.toPrecision(2))}×`;
}

function within(speed: number): number {
  return Math.min(2 ** DOUBLINGS, Math.max(2 ** -DOUBLINGS, speed));
}
