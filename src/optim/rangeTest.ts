/**
 * What the losses of a range test say: when it has come to rates that are too high, and which rate to train with. The test is Smith's
 * (https://arxiv.org/abs/1506.01186, section 3.3) as fastai and PyTorch Lightning have it: the rate rises exponentially until the loss
 * explodes. Pure: ranks that know the same losses come to the same end.
 */
import { rangeRate } from './schedule.ts';

/** A smoothed loss of so many times the lowest one is an explosion; fastai and Lightning have the same. */
const EXPLOSION = 4;
/** Share of the steps that a loss is smoothed over: eight tenths of a decade of rates. */
const SMOOTHED = 0.1;
/** Share of the steps in which rates rise tenfold. */
const DECADE = 1 / 8;
/** Shares of the steps that are left to the average to settle, and whose rates teach nothing: a decade, and two. */
const SETTLING = DECADE;
const IDLE = 2 * DECADE;
/** A fall counts that is so many times what the noise makes of a smoothed loss, and such a share of the loss: all have ups and downs. */
const CLEAR_FALL = 5;
const LEAST_FALL = 1e-3;
/** Of the suggested rate: what is found is not more exact. */
const DIGITS = 2;

export interface RangeFinding {
  /** By step. */
  rates: number[];
  /** By step, smoothed. */
  losses: number[];
  suggested: number | null;
  /** Why there is none: the loss did not fall clearly, or there are too few steps to say so. */
  reason: 'flat' | 'short' | null;
}

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
 * The rate at which the loss falls steepest, before it is lowest: the middle of those ten-fold stretches of rates of which a straight
 * line through the losses falls most. A line's slope tells noise from a fall as no difference of neighbours does, and keeps half a
 * decade away from where the loss begins to explode.
 *
 * @param losses of its steps, all of them numbers.
 * @param steps that it was to take.
 */
export function findRate(losses: readonly number[], steps: number): RangeFinding {
  const rates = losses.map((_, step) => rangeRate(step / steps));
  const smoothed = smooth(losses, steps);
  const found = { rates, losses: smoothed };
  const reach = Math.max(1, Math.round((DECADE * steps) / 2));
  const idle = Math.ceil(IDLE * steps);
  const tried = smoothed.slice(idle);
  const lowest = Math.min(...tried);
  // The smoothed loss lags behind: it is lowest where the loss itself has just begun to rise.
  const end = idle + tried.indexOf(lowest) + 1;
  if (tried.length === 0 || end <= 2 * reach) return { ...found, suggested: null, reason: 'short' };
  const atFirst = mean(losses.slice(0, idle));
  const clear = Math.max(CLEAR_FALL * noiseOf(losses.slice(0, end), steps), LEAST_FALL * Math.abs(atFirst));
  if (atFirst - lowest <= clear) return { ...found, suggested: null, reason: 'flat' };
  const middles = Array.from({ length: end - 2 * reach }, (_, i) => i + reach);
  const slopes = middles.map((middle) => slopeAround(losses, middle, reach));
  const steepest = middles[slopes.indexOf(Math.min(...slopes))]!;
  return { ...found, suggested: Number(rates[steepest]!.toPrecision(DIGITS)), reason: null };
}

/** Share of the past in a smoothed loss. */
function weightOf(steps: number): number {
  return 1 - 1 / Math.max(1, SMOOTHED * steps);
}

/** Exponential moving average, with Adam's correction of its beginning. */
function smooth(losses: readonly number[], steps: number): number[] {
  const weight = weightOf(steps);
  let sum = 0;
  let mass = 0;
  return losses.map((loss) => {
    sum = weight * sum + (1 - weight) * loss;
    mass = weight * mass + (1 - weight);
    return sum / mass;
  });
}

/** Standard deviation of a smoothed loss, as that of the losses themselves shows in what neighbours differ by. */
function noiseOf(losses: readonly number[], steps: number): number {
  const squares = losses.slice(1).map((loss, i) => (loss - losses[i]!) ** 2);
  const weight = weightOf(steps);
  return Math.sqrt((mean(squares) / 2) * ((1 - weight) / (1 + weight)));
}

/** Of the line of least squares through 2 * `reach` + 1 losses, up to a factor that is the same for all. */
function slopeAround(losses: readonly number[], middle: number, reach: number): number {
  let sum = 0;
  for (let offset = -reach; offset <= reach; offset++) sum += offset * losses[middle + offset]!;
  return sum;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
