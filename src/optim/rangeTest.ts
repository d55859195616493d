/**
 * What the losses of a range test say: when it has come to rates that are too high, and which rate
 * to train with. The test is Smith's (https://arxiv.org/abs/1506.01186, section 3.3) as fastai and
 * PyTorch Lightning have it: the rate rises exponentially until the loss explodes. Pure: ranks that
 * know the same losses come to the same end.
 */
import type { RateTest } from '../protocol/runResult.ts';
import { rangeRate } from './schedule.ts';

/**
 * A smoothed loss of so many times the lowest one is an explosion; fastai and Lightning have the
 * same.
 */
const EXPLOSION = 4;
/** Share of the steps that a loss is smoothed over: eight tenths of a decade of rates. */
const SMOOTHED = 0.1;
/** Share of the steps in which rates rise tenfold. */
const DECADE = 1 / 8;
/**
 * Shares of the steps that are left to the average to settle, and whose rates teach nothing: a
 * decade, and two.
 */
const SETTLING = DECADE;
const IDLE = 2 * DECADE;
/** Decades that a line is laid through. */
const STRETCHES = [1, 1.5, 2, 3];
/**
 * A fall counts that is so many times what noise makes of it, and such a share of the loss: all
 * have ups and downs. Of losses that are nothing but noise, 97 of 100 tests show no such fall; with
 * 5 times, tests with noisy losses that do fall show none, either.
 */
const CLEAR_FALL = 4;
const LEAST_FALL = 1e-3;
/**
 * Median difference of two numbers from a normal distribution, in its standard deviations: 0.6745
 * times the root of 2.
 */
const MEDIAN_DIFFERENCE = 0.954;
/** Of the suggested rate: what is found is not more exact. */
const DIGITS = 2;

/**
 * Whether a range test is over before its last step.
 *
 * @param losses of its steps so far, in order. One that is no number is an explosion, too.
 * @param steps that it is to take.
 */
export function hasExploded(losses: readonly number[], steps: number): boolean {
  const last = losses.length - 1;
  if (last < 0) return false;
  if (!Number.isFinite(losses[last])) return true;
  const settled = smooth(losses, steps).slice(Math.floor(SETTLING * steps));
  if (settled.length === 0) return false;
  const lowest = Math.min(...settled);
  // Losses of one's own may be below zero.
  return settled.at(-1)! > lowest + (EXPLOSION - 1) * Math.abs(lowest);
}

/**
 * The rate at which the loss falls steepest, before it is lowest: the middle of those ten-fold
 * stretches of rates of which a straight line through the losses falls most, or where noise hides
 * the fall, of longer ones. A line's slope tells noise from a fall as no difference of neighbours
 * does, and keeps half a decade away from where the loss begins to explode.
 *
 * @param losses of its steps, all of them numbers.
 * @param steps that it was to take.
 */
export function findRate(losses: readonly number[], steps: number): RateTest {
  const rates = losses.map((_, step) => rangeRate(step / steps));
  const smoothed = smooth(losses, steps);
  const found = { rates, losses: smoothed };
  const idle = Math.ceil(IDLE * steps);
  const tried = smoothed.slice(idle);
  // The smoothed loss lags behind: it is lowest where the loss itself has just begun to rise.
  const falling = losses.slice(0, idle + tried.indexOf(Math.min(...tried)) + 1);
  const reaches = STRETCHES.map((decades) => Math.max(1, Math.round((decades * DECADE * steps) / 2)));
  if (tried.length === 0 || falling.length <= 2 * reaches[0]!) return { ...found, suggested: null, reason: 'short' };
  const noise = noiseOf(falling);
  for (const reach of reaches) {
    const { middle, fall } = steepest(falling, reach);
    const clear = Math.max(CLEAR_FALL * noise * fallByNoise(reach), LEAST_FALL * Math.abs(falling[0]!));
    if (fall > clear) return { ...found, suggested: Number(rates[middle]!.toPrecision(DIGITS)), reason: null };
  }
  return { ...found, suggested: null, reason: 'flat' };
}

/** Exponential moving average, with Adam's correction of its beginning. */
function smooth(losses: readonly number[], steps: number): number[] {
  const weight = 1 - 1 / Math.max(1, SMOOTHED * steps);
  let sum = 0;
  let mass = 0;
  return losses.map((loss) => {
    sum = weight * sum + (1 - weight) * loss;
    mass = weight * mass + (1 - weight);
    return sum / mass;
  });
}

/**
 * Standard deviation of a loss, by what neighbours differ by in the middle of all cases: few of
 * them are part of a fall.
 */
function noiseOf(losses: readonly number[]): number {
  const differences = losses
    .slice(1)
    .map((loss, i) => Math.abs(loss - losses[i]!))
    .sort((a, b) => a - b);
  return differences[differences.length >> 1]! / MEDIAN_DIFFERENCE;
}

/**
 * Of 2 * `reach` + 1 losses in a row, those of which the line of least squares falls most: which
 * one is in the middle, and how far.
 */
function steepest(losses: readonly number[], reach: number): { middle: number; fall: number } {
  let best = { middle: 0, fall: -Infinity };
  for (let middle = reach; middle + reach < losses.length; middle++) {
    let sum = 0;
    for (let offset = -reach; offset <= reach; offset++) sum -= offset * losses[middle + offset]!;
    const fall = (sum / squaresUpTo(reach)) * 2 * reach;
    if (fall > best.fall) best = { middle, fall };
  }
  return best;
}

/** Standard deviation of such a fall where a loss has one of 1, and nothing falls. */
function fallByNoise(reach: number): number {
  return (2 * reach) / Math.sqrt(squaresUpTo(reach));
}

/** Of the offsets -`reach` .. `reach`, summed. */
function squaresUpTo(reach: number): number {
  return (reach * (reach + 1) * (2 * reach + 1)) / 3;
}
