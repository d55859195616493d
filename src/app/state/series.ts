/**
 * A curve that may grow for several days. It has a limited number of points. Each point is the mean
 * of `stride` samples. At the limit, neighbouring points are merged and the stride doubles, so old
 * and new points have equal weight.
 */

export interface CurvePoint {
  step: number;
  /** Milliseconds since the run began. */
  at: number;
  value: number;
}

export interface CurveSeries {
  /** The number of samples in a point, a power of two. */
  stride: number;
  points: readonly CurvePoint[];
  /** The samples that are not yet in a point. */
  pending: readonly CurvePoint[];
}

/** The largest number of points. More are useless, because a chart has fewer pixels. */
const MAX_POINTS = 4096;

export const emptyCurveSeries: CurveSeries = { stride: 1, points: [], pending: [] };

/**
 * Returns `series` with one more sample. If its step is not after the latest step, the run has
 * restarted. Then the sample replaces all samples from its step on.
 */
export function appendToCurve(series: CurveSeries, sample: CurvePoint, max: number = MAX_POINTS): CurveSeries {
  const kept = truncateCurve(series, sample.step);
  const pending = [...kept.pending, sample];
  if (pending.length < kept.stride) return { ...kept, pending };
  const points = [...kept.points, mean(pending)];
  if (points.length < max) return { ...kept, points, pending: [] };
  const merged: CurvePoint[] = [];
  for (let i = 0; i + 1 < points.length; i += 2) merged.push(mean([points[i]!, points[i + 1]!]));
  const rest = points.length % 2 === 1 ? [points.at(-1)!] : [];
  return { stride: kept.stride * 2, points: [...merged, ...rest], pending: [] };
}

/** Returns `series` without the samples of `step` and of later steps. */
export function truncateCurve(series: CurveSeries, step: number): CurveSeries {
  const last = series.pending.at(-1) ?? series.points.at(-1);
  if (last === undefined || last.step < step) return series;
  const before = (point: CurvePoint) => point.step < step;
  return { ...series, points: series.points.filter(before), pending: series.pending.filter(before) };
}

/**
 * Returns the smoothed line: the mean of two exponential moving averages, one from the left and one
 * from the right. The average of both directions does not lag behind the data.
 *
 * @param weight the weight of the previous average, 0 <= weight < 1.
 */
export function smoothCurve(values: readonly number[], weight: number): number[] {
  const forward = movingAverage(values, weight);
  const backward = movingAverage(values.toReversed(), weight).toReversed();
  return forward.map((value, i) => (value + backward[i]!) / 2);
}

/**
 * Returns the exponential moving average. As in Adam, it is corrected for the bias at the start.
 */
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
 * Returns the smoothing weight for a curve of `count` points. The line averages about a twentieth
 * of the points, but at most 50 points. A curve of up to 20 points is not smoothed.
 */
export function smoothingWeightFor(count: number): number {
  return 1 - 1 / Math.min(50, Math.max(1, count / 20));
}

/** Returns the mean of samples. Its step and time are those of the last sample. */
function mean(points: readonly CurvePoint[]): CurvePoint {
  const last = points.at(-1)!;
  const value = points.reduce((sum, point) => sum + point.value, 0) / points.length;
  return { step: last.step, at: last.at, value };
}
