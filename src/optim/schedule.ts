/**
 * Learning rate schedules. Every rank computes the rate itself, so it must have the same bits on
 * every machine (see `rules.ts`). `Math.cos` and `Math.exp` differ between machines; polynomials
 * replace them here.
 */
import type { RunMeasurementName, RateScheduleName } from '../spec/names.ts';

interface Schedule {
  measure?: RunMeasurementName | null;
  /** The highest learning rate. A range test ignores it and uses rates of its own. */
  learningRate: number;
  schedule: RateScheduleName;
  /** Number of steps at the start of the run in which the rate rises linearly. */
  warmupSteps: number;
}

/** The rate at the end of a run, as a share of the highest rate; the same as for GPT-3. */
const FINAL_SHARE = 0.1;

/**
 * Lowest and highest rate of a range test, as powers of ten. The rate rises by the same factor in
 * every step, as in fastai's `lr_find`. Lower rates have no effect, and no job accepts higher
 * rates.
 */
const LOWEST_EXPONENT = -7;
const HIGHEST_EXPONENT = 1;

/**
 * Returns the rate of a step.
 *
 * @param step index of the step, from 0
 * @param done share of the run that is done before the step, 0 .. 1
 */
export function learningRateAt(
  { measure, learningRate, schedule, warmupSteps }: Schedule,
  step: number,
  done: number,
): number {
  if (measure === 'learning-rate') return rangeTestRate(done);
  const warm = step < warmupSteps ? (step + 1) / warmupSteps : 1;
  const share = schedule === 'constant' ? 1 : FINAL_SHARE + ((1 - FINAL_SHARE) * (1 + cosineOfHalfTurns(done))) / 2;
  return learningRate * warm * share;
}

/** Returns the rate of a range test. @param done share of its steps that are done, 0 .. 1 */
export function rangeTestRate(done: number): number {
  return powerOfTen(LOWEST_EXPONENT + (HIGHEST_EXPONENT - LOWEST_EXPONENT) * done);
}

/**
 * Computes 10^`exponent` with a relative error of 1e-14. The integer part of the exponent is
 * computed by multiplication, the fraction by the series of e^x.
 */
function powerOfTen(exponent: number): number {
  const whole = Math.floor(exponent);
  const x = (exponent - whole) * Math.LN10;
  let sum = 1;
  for (let k = LAST_POWER; k > 0; k--) sum = 1 + (sum * x) / k;
  for (let i = 0; i < Math.abs(whole); i++) sum = whole < 0 ? sum / 10 : sum * 10;
  return sum;
}

/**
 * Highest power of x in the series of {@link powerOfTen}. The next term is at most ln(10)^25 / 25!
 * = 7e-17.
 */
const LAST_POWER = 24;

/**
 * Computes cos(pi * turns) for `turns` (half turns) in 0 .. 1, with an error of 1e-13. The Taylor
 * series at 0 needs few terms up to 0.5. Larger values are mirrored.
 */
function cosineOfHalfTurns(turns: number): number {
  if (turns > 0.5) return -cosineOfHalfTurns(1 - turns);
  const square = Math.PI * turns * (Math.PI * turns);
  let sum = 1;
  for (let k = LAST_TERM; k > 0; k -= 2) sum = 1 - (sum * square) / (k * (k - 1));
  return sum;
}

/** Highest power in the series of the cosine. Its term is at most (pi / 2)^18 / 18! = 5e-13. */
const LAST_TERM = 18;
