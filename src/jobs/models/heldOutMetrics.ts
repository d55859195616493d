/**
 * Metrics of held-out samples, in addition to their loss. They are computed from sums over the
 * samples of all ranks, so the result does not depend on how samples are distributed over ranks.
 */
import { metricNamesOfJob, type LossAndMetrics, type MetricName, type MetricValues } from '../../spec/measures.ts';
import { UsageError } from '../../util/errors.ts';

/** The k of `top-3`. */
export const TOP_CLASS_COUNT = 3;
/**
 * Amounts are regarded as equal if the sum of their squared deviations is at most this share of the
 * sum of their squares. With equal amounts, the computed deviations are not exactly 0, because of
 * rounding errors.
 */
const ROUNDING = 1e-12;

export interface HeldOutMetrics {
  /** Number of sums that are added over all ranks. */
  readonly sums: number;
  /** Computes the metrics from the sums over all held-out samples. */
  toMetrics(sums: readonly number[], samples: number): MetricValues;
}

/**
 * Returns the metrics of a classification except its accuracy: `top-3` if the job requests it,
 * otherwise none. `top-3` is the share of samples whose label is one of the {@link TOP_CLASS_COUNT}
 * most likely classes.
 */
export function extraClassificationMetrics(job: Pick<LossAndMetrics, 'metrics'>): HeldOutMetrics {
  if (!metricNamesOfJob(job, 'classification').includes('top-3')) return { sums: 0, toMetrics: () => ({}) };
  return { sums: 1, toMetrics: ([among], samples) => ({ 'top-3': among! / samples }) };
}

/**
 * Returns the metrics of a regression. They are computed from {@link regressionSums}.
 *
 * @param unit converts differences of labels to differences of amounts, see `Dataset.labelUnit`.
 */
export function extraRegressionMetrics(job: Pick<LossAndMetrics, 'metrics'>, unit: number): HeldOutMetrics {
  const metric = (name: MetricName, sums: readonly number[], samples: number): number => {
    const [squares, distances, amounts, amountSquares] = sums as [number, number, number, number];
    switch (name) {
      case 'rmse':
        return Math.sqrt(squares / samples) * unit;
      case 'mae':
        return (distances / samples) * unit;
      case 'r2': {
        const variance = amountSquares - amounts ** 2 / samples;
        if (variance <= ROUNDING * amountSquares) return squares === 0 ? 1 : 0;
        return 1 - squares / variance;
      }
      case 'accuracy':
      case 'top-3':
        throw new UsageError(`The metric ${name} does not apply to a regression.`);
      default:
        return name satisfies never;
    }
  };
  const names = metricNamesOfJob(job, 'regression');
  return {
    sums: 4,
    toMetrics: (sums, samples) => Object.fromEntries(names.map((name) => [name, metric(name, sums, samples)])),
  };
}

/**
 * Returns sums of squared errors, absolute errors, amounts and squared amounts. Rows whose weight
 * is 0 are not included.
 *
 * @param outputs, amounts, weights [rows]
 */
export function regressionSums(
  outputs: ArrayLike<number>,
  amounts: ArrayLike<number>,
  weights: ArrayLike<number>,
): [squares: number, distances: number, amounts: number, amountSquares: number] {
  const sums: [number, number, number, number] = [0, 0, 0, 0];
  for (let row = 0; row < amounts.length; row++) {
    if (weights[row] === 0) continue;
    const amount = amounts[row]!;
    const distance = outputs[row]! - amount;
    sums[0] += distance * distance;
    sums[1] += Math.abs(distance);
    sums[2] += amount;
    sums[3] += amount * amount;
  }
  return sums;
}
