/**
 * Divides the samples of a step among ranks by the measured times of their passes. A share is
 * counted in quarters of the batch size, so 4 is an equal share. The functions are pure: every rank
 * computes the same shares from the same times.
 */
import type { WorkShareReason } from '../../spec/names.ts';
import { median } from '../../util/statistics.ts';
import { QUARTERS_PER_BATCH, type PassTimes } from './passTimes.ts';

/** A rank computes at most this many batches in a step, whatever speed it reports. */
const MOST_BATCHES = 4;
/**
 * Shares change only if the slowest rank then needs at most this part of its present time. With two
 * ranks, one twice as slow as the other, the part is 0.75.
 */
const GAIN = 0.8;
/**
 * Unequal shares are kept while the slowest rank needs at most this part of the time that it would
 * need with equal shares.
 */
const KEPT_GAIN = 0.95;
/** Shares change only if the change saves at least this many milliseconds of a step. */
const GAIN_MS = 5;
/**
 * Unequal shares change without confirmation if the slowest rank then needs at most this part of
 * its present time.
 */
const LARGE_GAIN = 0.75;
/**
 * Number of consecutive decisions in which other shares must be better before unequal shares
 * change. A single decision may be due to a short interruption.
 */
const CONFIRMATIONS = 2;
/**
 * Number of consecutive decisions in which other shares must be better before equal shares change.
 * In all of them the same rank must be the slowest. The number is large, because a change of shares
 * changes the order in which gradients are added: runs on equal machines give equal bits only if
 * noise never changes shares.
 */
export const REQUIRED_SHARE_CONFIRMATIONS = 5;
/** No device learns from more samples per second, so a higher speed counts as unknown. */
const MOST_SPEED = 1e8;
/**
 * No rank is this many times as fast as the median of the other ranks, so a higher speed counts as
 * unknown.
 */
const MOST_RATIO = 1000;

export interface ShareDecision {
  /**
   * For each rank: its share, in quarters of the batch size. The sum is the same as with equal
   * shares.
   */
  shares: readonly number[];
  reason: WorkShareReason;
  /**
   * Number of consecutive decisions, up to the latest, in which other shares would have been
   * better.
   */
  confirmations: number;
  /**
   * While a change of equal shares is being confirmed: the slowest rank in the latest decision;
   * otherwise `null`.
   */
  slowest: number | null;
}

export function equalShares(worldSize: number, reason: WorkShareReason): ShareDecision {
  const shares = Array.from({ length: worldSize }, () => QUARTERS_PER_BATCH);
  return { shares, reason, confirmations: 0, slowest: null };
}

/**
 * Returns the speeds, with `null` for each impossible one: NaN, infinite, 0, negative, or much
 * larger than the speeds of the other ranks.
 *
 * @param speeds samples per second of each rank; `null` if a rank has not measured its speed yet.
 */
export function plausibleSpeeds(speeds: readonly (number | null)[]): (number | null)[] {
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
 * @param times times of each rank's passes; `null` for a rank whose times are not known.
 */
export function decideShares(before: ShareDecision, times: readonly (PassTimes | null)[]): ShareDecision {
  const equal = equalShares(times.length, reasonOf(before, times));
  const isEqual = before.shares.every((share) => share === QUARTERS_PER_BATCH);
  const nowMs = slowestMs(before.shares, times);
  const equalMs = slowestMs(equal.shares, times);
  // Unequal shares may save no time: on some devices a small pass takes as long as a large one.
  // This is known only after small passes were measured.
  const isKept = !isEqual && nowMs <= KEPT_GAIN * equalMs;
  const shares = sharesOf(times);
  const bySpeed: ShareDecision = { shares, reason: 'speed', confirmations: 0, slowest: null };
  const then = isWorth(isKept ? nowMs : equalMs, slowestMs(shares, times)) ? bySpeed : equal;
  if (then === equal && isEqual) return equal;
  if (then === equal && isKept) return { ...before, confirmations: 0 };
  const slowest = isEqual ? slowestOf(before.shares, times) : null;
  const confirmations = slowest === before.slowest ? before.confirmations + 1 : 1;
  const isAtOnce = !isEqual && slowestMs(then.shares, times) <= LARGE_GAIN * nowMs;
  const enough = isEqual ? REQUIRED_SHARE_CONFIRMATIONS : CONFIRMATIONS;
  return isAtOnce || confirmations >= enough ? then : { ...before, confirmations, slowest };
}

/** Returns the reason for equal shares: similar speeds, or the fixed cost of passes. */
function reasonOf({ reason }: ShareDecision, times: readonly (PassTimes | null)[]): WorkShareReason {
  const free = times.map((own) => own && { whole: own.whole, quarter: own.whole / QUARTERS_PER_BATCH });
  const equalMs = slowestMs(equalShares(times.length, 'equal').shares, times);
  const part = reason === 'speed' || reason === 'overhead' ? KEPT_GAIN : GAIN;
  return isWorth(equalMs, slowestMs(sharesOf(free), free), part) ? 'overhead' : 'similar';
}

/**
 * Returns a rank's part of a window of `size` samples: from `start` to before `end`. The parts of
 * all ranks are contiguous and cover the window.
 */
export function windowPartOfRank(
  size: number,
  shares: readonly number[],
  rank: number,
): { start: number; end: number } {
  const upTo = (count: number): number => shares.slice(0, count).reduce((sum, share) => sum + share, 0);
  const placeOf = (parts: number): number => Math.floor((size * parts) / upTo(shares.length));
  return { start: placeOf(upTo(rank)), end: placeOf(upTo(rank + 1)) };
}

/**
 * Returns the sizes of the passes over `samples` samples: as few passes as possible, of the whole
 * batch size or of a quarter of it. The list has at least one size.
 */
export function passSizesFor(samples: number, batchSize: number): number[] {
  const quarter = Math.ceil(batchSize / QUARTERS_PER_BATCH);
  const quarters = Math.ceil((samples % batchSize) / quarter);
  const isWhole = quarters === QUARTERS_PER_BATCH;
  const batches = Math.floor(samples / batchSize) + (isWhole ? 1 : 0);
  const passes = [
    ...Array.from({ length: isWhole ? 0 : quarters }, () => quarter),
    // The last pass overlaps with the exchange of gradients, so large passes come last.
    ...Array.from({ length: batches }, () => batchSize),
  ];
  return passes.length === 0 ? [quarter] : passes;
}

function isWorth(nowMs: number, thenMs: number, part = GAIN): boolean {
  return thenMs <= part * nowMs && nowMs - thenMs >= GAIN_MS;
}

/** Returns how long the passes of a share take, in milliseconds. */
function durationOf(share: number, { whole, quarter }: PassTimes): number {
  return Math.floor(share / QUARTERS_PER_BATCH) * whole + (share % QUARTERS_PER_BATCH) * quarter;
}

/** Returns how long the slowest rank computes, in milliseconds. Unknown times do not count. */
function slowestMs(shares: readonly number[], times: readonly (PassTimes | null)[]): number {
  return Math.max(0, ...durationsOf(shares, times));
}

function slowestOf(shares: readonly number[], times: readonly (PassTimes | null)[]): number {
  const durations = durationsOf(shares, times);
  return durations.indexOf(Math.max(...durations));
}

function durationsOf(shares: readonly number[], times: readonly (PassTimes | null)[]): number[] {
  return shares.map((share, rank) => {
    const own = times[rank] ?? null;
    return own === null ? 0 : durationOf(share, own);
  });
}

/**
 * Returns the shares with which the slowest rank needs the least time. Every rank has at least one
 * quarter, so that its passes are measured. A rank without known times has at most an equal share.
 */
function sharesOf(times: readonly (PassTimes | null)[]): number[] {
  const known = times.filter((own) => own !== null);
  const typical = { whole: median(known.map(({ whole }) => whole)), quarter: median(known.map((one) => one.quarter)) };
  const shares = times.map(() => 1);
  const spent = times.map((own) => durationOf(1, own ?? typical));
  for (let left = (QUARTERS_PER_BATCH - 1) * times.length; left > 0; left--) {
    let next = -1;
    let least = Infinity;
    for (const [rank, own] of times.entries()) {
      if (shares[rank]! >= (own === null ? QUARTERS_PER_BATCH : MOST_BATCHES * QUARTERS_PER_BATCH)) continue;
      // Three passes of a quarter may take longer than one of a whole batch. Here a larger share
      // counts as at least as slow as a smaller one.
      const duration = Math.max(spent[rank]!, durationOf(shares[rank]! + 1, own ?? typical));
      if (next < 0 || duration < least) [next, least] = [rank, duration];
    }
    shares[next]! += 1;
    spent[next] = least;
  }
  return shares;
}
