/**
 * How the learning rate goes over a run. Every rank works it out for itself, so the rules of this folder hold: `Math.cos` is not the
 * same on every machine, and the cosine here is a polynomial, which is.
 */

export interface Schedule {
  /** The rate that it rises to. */
  learningRate: number;
  schedule: 'constant' | 'cosine';
  /** Steps of rising, in equal parts. */
  warmupSteps: number;
}

/** What is left at the end, of the highest rate: as GPT-3 was trained. */
const FINAL_SHARE = 0.1;

/**
 * The rate of a step.
 *
 * @param step from 0
 * @param done share of the run that is over when it begins, 0 .. 1
 */
export function rateAt({ learningRate, schedule, warmupSteps }: Schedule, step: number, done: number): number {
  const warm = step < warmupSteps ? (step + 1) / warmupSteps : 1;
  const share = schedule === 'constant' ? 1 : FINAL_SHARE + ((1 - FINAL_SHARE) * (1 + cosineOfHalfTurns(done))) / 2;
  return learningRate * warm * share;
}

/** The cosine of `turns` times pi, of 0 .. 1, to 1e-13: the series about 0, which is short up to a quarter turn. */
function cosineOfHalfTurns(turns: number): number {
  if (turns > 0.5) return -cosineOfHalfTurns(1 - turns);
  const square = Math.PI * turns * (Math.PI * turns);
  let sum = 1;
  for (let k = LAST_TERM; k > 0; k -= 2) sum = 1 - (sum * square) / (k * (k - 1));
  return sum;
}

/** Power of the last term of the series: (pi / 2)^18 / 18! is 5e-13. */
const LAST_TERM = 18;
