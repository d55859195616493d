/**
 * Fits the constants of the cost model to measured all-reduces, and checks how well the model
 * predicts other all-reduces.
 */
import { allReduceRounds, estimate, type Costs } from '../../src/collectives/plans/costModel.ts';
import { Algorithm } from '../../src/protocol/frame.ts';

/** A measured all-reduce around the ring of `n` tabs of one machine. */
export interface Sample {
  n: number;
  bytes: number;
  ms: number;
}

export interface Prediction extends Sample {
  predictedMs: number;
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

/** Returns the milliseconds that the model predicts for a ring all-reduce. */
export function predict(n: number, bytes: number, costs: Costs): number {
  return estimate(allReduceRounds(Algorithm.RING, n, bytes), n, costs);
}

/**
 * Fits the constants by least squares of relative errors. No constant is negative. The model has
 * two cases for a round, and the constants determine which case applies, so the fit is repeated
 * until the constants are stable.
 *
 * @param combineMsPerByte cost of adding a byte. It is measured separately, because it is too small
 * to be fitted.
 */
export function fitCosts(samples: readonly Sample[], combineMsPerByte: number): Costs {
  let best: Costs = { ...GUESS, msPerByte: 0, combineMsPerByte };
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
          const predictedMs = predict(sample.n, sample.bytes, costs);
          return { ...sample, predictedMs, error: predictedMs / sample.ms - 1 };
        });
    });
}

/** Returns the largest absolute error. */
export function worstError(predictions: readonly Prediction[]): number {
  return Math.max(...predictions.map(({ error }) => Math.abs(error)));
}

function squares(samples: readonly Sample[], costs: Costs): number {
  return samples.reduce((sum, { n, bytes, ms }) => sum + (predict(n, bytes, costs) / ms - 1) ** 2, 0);
}

/**
 * Returns a row of the linear system: how the predicted time depends on each constant, relative to
 * the measured time. The last element is the part that the constants must explain, which is 1 if
 * combining costs nothing.
 */
function featuresAt({ n, bytes, ms }: Sample, costs: Costs): number[] {
  const at = predict(n, bytes, costs);
  const slopes = FITTED.map((name) => {
    const step = costs[name] * 1e-6 + 1e-12;
    return (predict(n, bytes, { ...costs, [name]: costs[name] + step }) - at) / step;
  });
  const explained = slopes.reduce((sum, slope, i) => sum + slope * costs[FITTED[i]!], 0);
  return [...slopes.map((slope) => slope / ms), 1 - (at - explained) / ms];
}

/**
 * Solves non-negative least squares: tries every set of unknowns that may be 0. This is exact, and
 * fast for so few unknowns.
 *
 * @param rows equations: the coefficients of the unknowns, and then the value on the right side.
 */
function nonNegative(rows: readonly number[][]): number[] {
  const unknowns = rows[0]!.length - 1;
  let best: { residual: number; solution: number[] } = { residual: Infinity, solution: [] };
  for (let chosen = 1; chosen < 2 ** unknowns; chosen++) {
    const columns = Array.from({ length: unknowns }, (_, i) => i).filter((i) => (chosen >> i) & 1);
    const found = normalEquations(rows, columns);
    if (found === null || found.some((value) => value < 0)) continue;
    const solution = Array.from({ length: unknowns }, (_, i) => found[columns.indexOf(i)] ?? 0);
    const residual = rows.reduce((sum, row) => {
      const value = solution.reduce((total, x, i) => total + x * row[i]!, 0);
      return sum + (value - row[unknowns]!) ** 2;
    }, 0);
    if (residual < best.residual) best = { residual, solution };
  }
  return best.solution;
}

/**
 * Solves the normal equations by Gauss-Jordan elimination. Returns `null` if there is no unique
 * solution.
 */
function normalEquations(rows: readonly number[][], columns: readonly number[]): number[] | null {
  const last = rows[0]!.length - 1;
  // Columns are scaled, because a byte costs about a millionth of a hop.
  const scales = columns.map((column) => Math.hypot(...rows.map((row) => row[column]!)) || 1);
  const matrix = columns.map((a, i) =>
    [...columns, last].map((b, j) =>
      rows.reduce((sum, row) => sum + (row[a]! * row[b]!) / (scales[i]! * (scales[j] ?? 1)), 0),
    ),
  );
  for (const [i, row] of matrix.entries()) {
    const pivot = row[i]!;
    if (Math.abs(pivot) < 1e-9) return null;
    for (let k = i; k < row.length; k++) row[k]! /= pivot;
    for (const [j, other] of matrix.entries()) {
      const factor = other[i]!;
      if (j !== i) for (let k = i; k < row.length; k++) other[k]! -= factor * row[k]!;
    }
  }
  return matrix.map((row, i) => row.at(-1)! / scales[i]!);
}
