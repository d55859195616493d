/** Quantiles and means of lists of numbers. */

/** Returns the p-th quantile, 0 <= p <= 1, by the nearest-rank method; 0 for an empty list. */
export function quantile(values: readonly number[], p: number): number {
  if (values.length === 0) return 0;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(p * sorted.length) - 1)]!;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** Returns the median of each field of rows that all have the same fields. */
export function mediansOfFields<Row extends Record<keyof Row, number>>(rows: readonly Row[]): Row {
  const names = Object.keys(rows[0] ?? {}) as (keyof Row)[];
  return Object.fromEntries(names.map((name) => [name, median(rows.map((row) => row[name]))])) as Row;
}

/** Returns the arithmetic mean; 0 for an empty list. */
export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}
