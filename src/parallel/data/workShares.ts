/**
 * Divides the samples of a step among ranks by their measured speeds. A share is counted in
 * quarters of the batch size, so 4 is an equal share. The functions are pure: every rank computes
 * the same shares from the same speeds.
 */
import type { ShareReason } from '../../spec/names.ts';
import { median } from '../../util/statistics.ts';

/** Number of parts of a batch. The smallest pass has one part, so that tensors have few shapes. */
export const PARTS = 4;
/** A rank computes at most this many batches in a step, whatever speed it reports. */
const MOST_BATCHES = 4;
/** Shares differ only if the fastest rank is more than this many times as fast as the slowest. */
const UNEQUAL_RATIO = 1.3;
/** Shares become equal again if the speeds differ by less than this ratio. */
const SIMILAR_RATIO = 1.15;
/** Shares change only if the slowest rank then needs at most this part of its time. */
const GAIN = 0.9;
/** Shares change only if this saves at least so many milliseconds of a step. */
const GAIN_MS = 5;
/** Unequal shares change at once if the slowest rank then needs at most this part of its time. */
const LARGE_GAIN = 0.75;
/**
 * Number of consecutive decisions in which other shares must be better before they are used. A
 * single decision may be due to a short interruption.
 */
const CONFIRMATIONS = 2;
/** Number of decisions for which shares stay equal after small passes turned out to be slower. */
const PAUSE = 8;
/** No device learns from more samples per second. */
const MOST_SPEED = 1e8;
/** No rank is this many times as fast as the median of the other ranks. */
const MOST_RATIO = 1000;

export interface Shares {
  /** Quarters of the batch size, by rank. The sum is the sum of equal shares. */
  shares: readonly number[];
  reason: ShareReason;
  /** Number of latest decisions in which other shares would have been better. */
  confirmations: number;
  /**
   * How long the slowest rank needed for an equal share, in milliseconds, until shares by speed
   * have proved to be quicker; otherwise `null`.
   */
  equalMs: number | null;
  /** Number of decisions for which shares stay equal. */
  pause: number;
}

export function equalShares(worldSize: number, reason: ShareReason): Shares {
  const shares = Array.from({ length: worldSize }, () => PARTS);
  return { shares, reason, confirmations: 0, equalMs: null, pause: 0 };
}

/**
 * Returns the speeds, with `null` for each impossible one: NaN, infinite, 0, negative, or much
 * larger than the speeds of the other ranks.
 *
 * @param speeds samples per second of each rank; `null` if a rank has not measured its speed yet.
 */
export function possibleSpeeds(speeds: readonly (number | null)[]): (number | null)[] {
  const valid = speeds.map((speed) => (speed !== null && speed > 0 && speed <= MOST_SPEED ? speed : null));
  return valid.map((speed, rank) => {
    const others = valid.filter((other, i): other is number => i !== rank && other !== null);
    return speed !== null && others.length > 0 && speed > MOST_RATIO * median(others) ? null : speed;
  });
}

/**
 * Decides the shares of the next steps.
 *
 * @param before the previous decision.
 * @param speeds samples per second of each rank; `null` if a rank's speed is not known.
 * @param batchSize number of samples of an equal share.
 */
export function decideShares(before: Shares, speeds: readonly (number | null)[], batchSize: number): Shares {
  const n = speeds.length;
  const known = speeds.filter((speed) => speed !== null);
  const ratio = known.length === 0 ? 1 : Math.max(...known) / Math.min(...known);
  const durationMs = (shares: readonly number[]): number => slowestMs(shares, speeds, batchSize);
  const now = durationMs(before.shares);
  const isEqual = before.shares.every((share) => share === PARTS);
  if (isEqual) {
    const { pause } = before;
    if (pause > 0) return { ...before, pause: pause - 1 };
    const shares = ratio > UNEQUAL_RATIO ? sharesOf(speeds) : before.shares;
    if (!isWorth(now, durationMs(shares))) return equalShares(n, 'similar');
    const confirmations = before.confirmations + 1;
    if (confirmations < CONFIRMATIONS) return { ...equalShares(n, 'similar'), confirmations };
    return { shares, reason: 'speed', confirmations: 0, equalMs: now, pause: 0 };
  }
  // On some devices, a pass of few samples takes as long as a pass of many.
  if (before.equalMs !== null && now > GAIN * before.equalMs) {
    return { ...equalShares(n, 'overhead'), pause: PAUSE };
  }
  const proven = { ...before, equalMs: null, confirmations: 0 };
  if (ratio < SIMILAR_RATIO) return equalShares(n, 'similar');
  const shares = sharesOf(speeds);
  const then = durationMs(shares);
  if (!isWorth(now, then)) return proven;
  const confirmations = before.confirmations + 1;
  return then <= LARGE_GAIN * now || confirmations >= CONFIRMATIONS
    ? { ...proven, shares }
    : { ...proven, confirmations };
}

/**
 * Returns a rank's part of a window of `size` samples: from `start` to before `end`. The parts of
 * all ranks are contiguous and cover the window.
 */
export function partOf(size: number, shares: readonly number[], rank: number): { start: number; end: number } {
  const upTo = (count: number): number => shares.slice(0, count).reduce((sum, share) => sum + share, 0);
  const placeOf = (parts: number): number => Math.floor((size * parts) / upTo(shares.length));
  return { start: placeOf(upTo(rank)), end: placeOf(upTo(rank + 1)) };
}

/**
 * Returns the sizes of the passes over `samples` samples: as few passes as possible, of the whole
 * batch size or of a quarter of it. The list has at least one size.
 */
export function passesOf(samples: number, batchSize: number): number[] {
  const quarter = Math.ceil(batchSize / PARTS);
  const quarters = Math.ceil((samples % batchSize) / quarter);
  const isWhole = quarters === PARTS;
  const batches = Math.floor(samples / batchSize) + (isWhole ? 1 : 0);
  const passes = [
    ...Array.from({ length: isWhole ? 0 : quarters }, () => quarter),
    // The last pass overlaps with the exchange of gradients, so it is a large one.
    ...Array.from({ length: batches }, () => batchSize),
  ];
  return passes.length === 0 ? [quarter] : passes;
}

function isWorth(nowMs: number, thenMs: number): boolean {
  return thenMs <= GAIN * nowMs && nowMs - thenMs >= GAIN_MS;
}

/** Returns how long the slowest rank computes, in milliseconds. Unknown speeds do not count. */
function slowestMs(shares: readonly number[], speeds: readonly (number | null)[], batchSize: number): number {
  return shares.reduce((slowest, share, rank) => {
    const speed = speeds[rank] ?? null;
    return speed === null ? slowest : Math.max(slowest, (1000 * share * batchSize) / (PARTS * speed));
  }, 0);
}

/**
 * Returns the shares with which the slowest rank is quickest. Every rank has at least one quarter,
 * so that its speed is measured. A rank without a known speed has at most an equal share.
 */
function sharesOf(speeds: readonly (number | null)[]): number[] {
  const typical = median(speeds.filter((speed) => speed !== null));
  const shares = speeds.map(() => 1);
  for (let left = (PARTS - 1) * speeds.length; left > 0; left--) {
    let next = -1;
    let least = Infinity;
    for (const [rank, speed] of speeds.entries()) {
      if (shares[rank]! >= (speed === null ? PARTS : MOST_BATCHES * PARTS)) continue;
      const duration = (shares[rank]! + 1) / (speed ?? typical);
      if (duration < least) [next, least] = [rank, duration];
    }
    shares[next]! += 1;
  }
  return shares;
}
