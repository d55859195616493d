/**
 * Evaluates the losses of a learning rate range test: whether the rate is already too high, and
 * which rate to train with. The test is Smith's (https://arxiv.org/abs/1506.01186, section 3.3) as
 * in fastai and PyTorch Lightning: the rate rises exponentially until the loss explodes. The
 * functions are pure, so ranks with the same losses compute the same result.
 */
import type { RangeTestResult } from '../protocol/runResult.ts';
import { rangeTestRate } from './schedule.ts';

/**
 * The loss has exploded if the smoothed loss is more than this multiple of its lowest value, as in
 * fastai and Lightning.
 */
const EXPLOSION = 4;
/**
 * Losses are smoothed over this share of the test's steps. In these steps the rate rises by 0.8
 * decades, a factor of 6.3.
 */
const SMOOTHED = 0.1;
/** In this share of the test's steps the rate rises tenfold. */
const DECADE = 1 / 8;
/** Share of the steps that the smoothed loss needs at the start to settle. */
const SETTLING = DECADE;
/** Share of the steps at the start whose rates are too low to have an effect. */
const IDLE = 2 * DECADE;
/**
 * Lengths of the fitted lines, in decades of the rate. They are tried in this order until the loss
 * falls clearly along a line.
 */
const FITTED_DECADES = [1, 1.5, 2, 3];
/**
 * A fall is clear if it is more than this multiple of the fall that noise causes, and more than the
 * share `LEAST_FALL` of the loss. With 4, no clear fall is found in 97 of 100 tests whose losses
 * are pure noise. With 5, some real falls of noisy losses would be missed.
 */
const CLEAR_FALL = 4;
const LEAST_FALL = 1e-3;
/**
 * Median difference between two normally distributed numbers, in units of their standard deviation:
 * 0.6745 times the square root of 2.
 */
const MEDIAN_DIFFERENCE = 0.954;
/** Significant digits of the suggested rate. The test is not more exact than that. */
const DIGITS = 2;

/**
 * Whether a range test must end before its last step, because the loss has exploded.
 *
 * @param losses losses of the steps so far, in order. NaN or infinity counts as an explosion.
 * @param steps planned steps of the test.
 */
export function hasLossExploded(losses: readonly number[], steps: number): boolean {
  const last = losses.length - 1;
  if (last < 0) return false;
  if (!Number.isFinite(losses[last])) return true;
  const settled = smooth(losses, steps).slice(Math.floor(SETTLING * steps));
  if (settled.length === 0) return false;
  const lowest = Math.min(...settled);
  // Custom losses may be below zero, so the absolute value is used.
  return settled.at(-1)! > lowest + (EXPLOSION - 1) * Math.abs(lowest);
}

/**
 * Finds the rate at which the loss falls steepest before its minimum. A least-squares line is
 * fitted to the losses of each decade of rates; the found rate is the middle of the decade whose
 * line falls most. If noise hides the fall, ranges longer than a decade are tried. A line separates
 * a fall from noise better than differences between consecutive losses do. The range ends no later
 * than the minimum. So the found rate is at least about half a decade below the rates at which the
 * loss explodes.
 *
 * @param losses losses of the test's steps, all finite.
 * @param steps planned steps of the test.
 */
export function findLearningRate(losses: readonly number[], steps: number): RangeTestResult {
  const rates = losses.map((_, step) => rangeTestRate(step / steps));
  const smoothed = smooth(losses, steps);
  const found = { rates, losses: smoothed };
  const idle = Math.ceil(IDLE * steps);
  const tried = smoothed.slice(idle);
  // The smoothed loss lags behind the losses. When the smoothed loss reaches its minimum, the
  // losses are already rising.
  const falling = losses.slice(0, idle + tried.indexOf(Math.min(...tried)) + 1);
  const reaches = FITTED_DECADES.map((decades) => Math.max(1, Math.round((decades * DECADE * steps) / 2)));
  if (tried.length === 0 || falling.length <= 2 * reaches[0]!) return { ...found, suggested: null, reason: 'short' };
  const noise = noiseOf(falling);
  for (const reach of reaches) {
    const { middle, fall } = steepest(falling, reach);
    const clear = Math.max(CLEAR_FALL * noise * fallByNoise(reach), LEAST_FALL * Math.abs(falling[0]!));
    if (fall > clear) return { ...found, suggested: Number(rates[middle]!.toPrecision(DIGITS)), reason: null };
  }
  return { ...found, suggested: null, reason: 'flat' };
}

/** Exponential moving average with Adam's bias correction. */
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
 * Returns the standard deviation of the noise in the losses. It is estimated from the median
 * difference between two consecutive losses: the median hardly depends on the few differences that
 * are part of a fall.
 */
function noiseOf(losses: readonly number[]): number {
  const differences = losses
    .slice(1)
    .map((loss, i) => Math.abs(loss - losses[i]!))
    .sort((a, b) => a - b);
  return differences[differences.length >> 1]! / MEDIAN_DIFFERENCE;
}

/**
 * Finds the window of 2 * `reach` + 1 losses whose least-squares line falls most. Returns the
 * middle of the window and the fall of the line.
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

/**
 * Returns the standard deviation of a fitted line's fall (see {@link steepest}), if the losses have
 * no trend and a standard deviation of 1.
 */
function fallByNoise(reach: number): number {
  return (2 * reach) / Math.sqrt(squaresUpTo(reach));
}

/** Returns the sum of squares of the offsets -`reach` .. `reach`. */
function squaresUpTo(reach: number): number {
  return (reach * (reach + 1) * (2 * reach + 1)) / 3;
}
