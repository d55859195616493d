/** Comparing loss curves. */

/** Largest of |a - b| / |b| over the steps; infinite where the curves have not as many. */
export function largestDifference(losses: readonly number[], reference: readonly number[]): number {
  if (losses.length !== reference.length) return Infinity;
  return Math.max(0, ...losses.map((loss, step) => Math.abs(loss - reference[step]!) / Math.abs(reference[step]!)));
}

/** At each step the mean of the last `span`, of fewer at the beginning. */
export function movingAverage(values: readonly number[], span: number): number[] {
  return values.map((_, i) => {
    const part = values.slice(Math.max(0, i + 1 - span), i + 1);
    return part.reduce((sum, value) => sum + value, 0) / part.length;
  });
}
