/**
 * Fits the constants of the cost model to measured all-reduces, and checks how well the model
 * predicts other all-reduces.
 */
import { allReduceRounds, estimateRoundsMs, type NetworkCosts } from '../../src/collectives/plans/costModel.ts';
import { AlgorithmCode } from '../../src/protocol/frame.ts';

/** A measured all-reduce around the ring of `n` tabs of one machine. */
export interface Sample {
  n: number;
  bytes: number;
  ms: number;
}

interface Prediction extends Sample {
  /** (predicted - measured) / measured. */
  error: number;
}

const FITTED = ['hopMs', 'hopMsPerByte', 'sharedMsPerFrame', 'sharedMsPerByte', 'crowdMsPerByte'] as const;
type Fitted = Record<(typeof FITTED)[number], number>;

/** Start values of the fit: 1 ms per hop, and 10 MB/s for all tabs together. */
const GUESS: Fitted = {
  hopMs: 1,
  hopMsPerByte: 1e-4,
  sharedMsPerFrame: 0.1,
  sharedMsPerByte: 1e-4,
  crowdMsPerByte: 1e-6,
};
/**
 * Number of iterations. The model is linear within each of its cases, so the fit converges after a
 * few.
 */
const ROUNDS = 20;
/** Iterations of the least squares. */
const SWEEPS = 20_000;

/** Returns the milliseconds that the model predicts for a ring all-reduce. */
export function predict(n: number, bytes: number, costs: NetworkCosts): number {
  return estimateRoundsMs(allReduceRounds(AlgorithmCode.RING, n, bytes), n, costs);
}

/**
 * Fits the constants by least squares of relative errors. No constant is negative. The model has
 * two cases for a round, and the constants determine which case applies, so the fit is repeated
 * until the constants are stable.
 *
 * @param combineMsPerByte cost of adding a byte. It is measured separately, because it is too small
 * to be fitted.
 */
export function fitCosts(samples: readonly Sample[], combineMsPerByte: number): NetworkCosts {
  let best: NetworkCosts = { ...GUESS, msPerByte: 0, combineMsPerByte };
  let costs = best;
  for (let round = 0; round < ROUNDS; round++) {
    const rows = samples.map((sample) => featuresAt(sample, costs));
    const solution = nonNegative(rows);
    costs = { ...costs, ...Object.fromEntries(FITTED.map((name, i) => [name, solution[i]!])) };
    if (squares(samples, costs) < squares(samples, best)) best = costs;
  }
  return best;
}

/**
 * Predicts the samples of each size from a fit to all other sizes. The smallest and the largest
 * size are not predicted, because that would be extrapolation.
 */
export function crossValidate(samples: readonly Sample[], combineMsPerByte: number): Prediction[] {
  const sizes = samples.map(({ bytes }) => bytes);
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  return [...new Set(sizes)]
    .filter((size) => size > least && size < most)
    .flatMap((size) => {
      const costs = fitCosts(
        samples.filter(({ bytes }) => bytes !== size),
        combineMsPerByte,
      );
      return samples
        .filter(({ bytes }) => bytes === size)
        .map((sample) => {
          return { ...sample, error: predict(sample.n, sample.bytes, costs) / sample.ms - 1 };
        });
    });
}

function squares(samples: readonly Sample[], costs: NetworkCosts): number {
  return samples.reduce((sum, { n, bytes, ms }) => sum + (predict(n, bytes, costs) / ms - 1) ** 2, 0);
}

/**
 * Returns a row of the linear system: how the predicted time depends on each constant, relative to
 * the measured time. The last element is the part that the constants must explain, which is 1 if
 * combining costs nothing.
 */
function featuresAt({ n, bytes, ms }: Sample, costs: NetworkCosts): number[] {
  const at = predict(n, bytes, costs);
  const slopes = FITTED.map((name) => {
    const step = costs[name] * 1e-6 + 1e-12;
    return (predict(n, bytes, { ...costs, [name]: costs[name] + step }) - at) / step;
  });
  const explained = slopes.reduce((sum, slope, i) => sum + slope * costs[FITTED[i]!], 0);
  return [...slopes.map((slope) => slope / ms), 1 - (at - explained) / ms];
}

/**
 * Solves non-negative least squares by coordinate descent: chooses the best value of one unknown
 * after the other, until the values are stable.
 *
 * @param rows equations: the coefficients of the unknowns, and then the value on the right side.
 */
function nonNegative(rows: readonly number[][]): number[] {
  const unknowns = rows[0]!.length - 1;
  /** Products of columns, the right side included. */
  const products = Array.from({ length: unknowns }, (_, i) =>
    rows[0]!.map((__, j) => rows.reduce((sum, row) => sum + row[i]! * row[j]!, 0)),
  );
  const solution = Array.from({ length: unknowns }, () => 0);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const [i, own] of products.entries()) {
      const explained = solution.reduce((sum, x, j) => sum + x * own[j]!, 0);
      solution[i] = Math.max(0, solution[i]! + (own[unknowns]! - explained) / (own[i]! || 1));
    }
  }
  return solution;
}
