/**
 * A curve that may grow for days and still fits the screen: bounded points, each the mean of
 * `stride` samples. When the bound is reached, neighbours are merged and the stride doubles, so old
 * and new points weigh the same.
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

/** A chart is at most a few thousand pixels wide: more points only cost time. */
const MAX_POINTS = 4096;

export const emptySeries: Series = { stride: 1, points: [], pending: [] };

/**
 * `series` and one more sample; a sample at or before the last one's step replaces all from there
 * on (a restart).
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
 * The line that eyes follow: the mean of an exponential moving average from the left and one from
 * the right, so that it lies in the middle of the noise and does not lag behind it.
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
 * How much past suits a curve of `count` points: none for a handful, a fiftieth of the curve for a
 * long one.
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
