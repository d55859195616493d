/**
 * What is told of held-out samples beside their loss, from sums that ranks add up: so each sample
 * counts once, on whatever rank.
 */
import { metricsOf, type Measures, type MetricName, type Metrics } from '../../spec/measures.ts';
import { UsageError } from '../../util/errors.ts';

/** In `top-3`. */
export const FIRST_CLASSES = 3;
/**
 * Of the amounts' squares: what a variance of exactly 0 is told from, as their sums are rounded.
 */
const ROUNDING = 1e-12;

export interface HeldOutMetrics {
  /** How many sums there are. */
  readonly sums: number;
  /** What they say, all held-out samples' together. */
  toMetrics(sums: readonly number[], samples: number): Metrics;
}

/**
 * Of classes, beside their accuracy: how many are {@link FIRST_CLASSES among the first}, where that
 * is asked for.
 */
export function classMetrics(job: Pick<Measures, 'metrics'>): HeldOutMetrics {
  if (!metricsOf(job, 'classification').includes('top-3')) return { sums: 0, toMetrics: () => ({}) };
  return { sums: 1, toMetrics: ([among], samples) => ({ 'top-3': among! / samples }) };
}

/** Of amounts: {@link amountSums}. @param unit how much of the amount one stands for. */
export function amountMetrics(job: Pick<Measures, 'metrics'>, unit: number): HeldOutMetrics {
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
        throw new UsageError(`${name} is not told of amounts.`);
      default:
        return name satisfies never;
    }
  };
  const names = metricsOf(job, 'regression');
  return {
    sums: 4,
    toMetrics: (sums, samples) => Object.fromEntries(names.map((name) => [name, metric(name, sums, samples)])),
  };
}

/**
 * Of a batch: the squares of distances from the amounts, the distances, the amounts and their
 * squares, each summed over rows of weight.
 *
 * @param outputs, amounts, weights [rows]
 */
export function amountSums(
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
