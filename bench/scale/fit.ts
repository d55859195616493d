/**
 * Fits the cost model's constants to measured all-reduces, and measures how well it predicts
 * others.
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

/** Start of the search: one hop, and 10 MB/s for all tabs together. */
const GUESS: Fitted = {
  hopMs: 1,
  hopMsPerByte: 1e-4,
  sharedMsPerFrame: 0.1,
  sharedMsPerByte: 1e-4,
  crowdMsPerByte: 1e-6,
};
/** The model is linear within each of its cases, so the fit converges after a few iterations. */
const ROUNDS = 20;

/** The model's prediction for the ring. */
export function predict(n: number, bytes: number, costs: Costs): number {
  return estimate(allReduceRounds(Algorithm.RING, n, bytes), n, costs);
}

/**
 * Fits by least squares of relative errors, with no constant below 0. The model has two cases for a
 * round, and the constants determine which apply, so the fit is repeated until they are stable.
 *
 * @param combineMsPerByte measured separately: too small to be visible in these times.
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
 * Samples of each size except the smallest and the largest, predicted by a fit of all other sizes:
 * nothing is extrapolated.
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

/** The largest absolute error. */
export function worstError(predictions: readonly Prediction[]): number {
  return Math.max(...predictions.map(({ error }) => Math.abs(error)));
}

function squares(samples: readonly Sample[], costs: Costs): number {
  return samples.reduce((sum, { n, bytes, ms }) => sum + (predict(n, bytes, costs) / ms - 1) ** 2, 0);
}

/**
 * Coefficients of the constants, relative to a sample's time; the last element is the remainder, 1
 * without combining.
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
 * Non-negative least squares, by trying which unknowns are 0: for so few that is fast and exact.
 *
 * @param rows coefficients, and the value that they should give.
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

/** Gauss-Jordan elimination; `null` if there is no unique solution. */
function normalEquations(rows: readonly number[][], columns: readonly number[]): number[] | null {
  const last = rows[0]!.length - 1;
  // Scaled: a byte costs a millionth of a hop.
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
