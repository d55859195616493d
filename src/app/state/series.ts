/**
 * A curve for runs of several days: a bounded number of points, each the mean of `stride` samples.
 * At the bound, neighbours are merged and the stride doubles, so old and new points have equal
 * weight.
 */

export interface Point {
  step: number;
  /** Milliseconds since the run began. */
  at: number;
  value: number;
}

export interface Series {
  /** Samples per point; a power of two. */
  stride: number;
  points: readonly Point[];
  /** Samples since the last whole point. */
  pending: readonly Point[];
}

/** More points than pixels of a chart only cost time. */
const MAX_POINTS = 4096;

export const emptySeries: Series = { stride: 1, points: [], pending: [] };

/**
 * `series` with one more sample. A sample at or before the last step replaces all from its step on
 * (a restart).
 */
export function append(series: Series, sample: Point, max: number = MAX_POINTS): Series {
  const kept = truncate(series, sample.step);
  const pending = [...kept.pending, sample];
  if (pending.length < kept.stride) return { ...kept, pending };
  const points = [...kept.points, mean(pending)];
  if (points.length < max) return { ...kept, points, pending: [] };
  const merged: Point[] = [];
  for (let i = 0; i + 1 < points.length; i += 2) merged.push(mean([points[i]!, points[i + 1]!]));
  const rest = points.length % 2 === 1 ? [points.at(-1)!] : [];
  return { stride: kept.stride * 2, points: [...merged, ...rest], pending: [] };
}

/** Drops samples of `step` and later. */
export function truncate(series: Series, step: number): Series {
  const last = series.pending.at(-1) ?? series.points.at(-1);
  if (last === undefined || last.step < step) return series;
  const before = (point: Point) => point.step < step;
  return { ...series, points: series.points.filter(before), pending: series.pending.filter(before) };
}

/**
 * The smoothed line: the mean of exponential moving averages from the left and from the right,
 * which does not lag behind the data.
 *
 * @param weight share of the neighbours, 0 <= weight < 1.
 */
export function smooth(values: readonly number[], weight: number): number[] {
  const forward = movingAverage(values, weight);
  const backward = movingAverage(values.toReversed(), weight).toReversed();
  return forward.map((value, i) => (value + backward[i]!) / 2);
}

/** Exponential moving average, unbiased at the start (Adam's correction). */
function movingAverage(values: readonly number[], weight: number): number[] {
  let sum = 0;
  let mass = 0;
  return values.map((value) => {
    if (!Number.isFinite(value)) return mass === 0 ? value : sum / mass;
    sum = sum * weight + value * (1 - weight);
    mass = mass * weight + (1 - weight);
    return sum / mass;
  });
}

/**
 * Smoothing for a curve of `count` points: none for a few, a fiftieth of the curve for a long one.
 */
export function smoothingFor(count: number): number {
  return 1 - 1 / Math.min(50, Math.max(1, count / 20));
}

/** The mean of samples, at the last one's step and time. */
function mean(points: readonly Point[]): Point {
  const last = points.at(-1)!;
  const value = points.reduce((sum, point) => sum + point.value, 0) / points.length;
  return { step: last.step, at: last.at, value };
}
