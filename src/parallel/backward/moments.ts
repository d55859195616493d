/** Mean and variance per channel. The moments of several parts can be merged. */

export interface ChannelMoments {
  /** Number of elements per channel. */
  count: number;
  /** Mean per channel. */
  mean: Float32Array;
  /** Biased variance per channel: the mean squared distance from the mean. */
  variance: Float32Array;
}

/**
 * Returns the moments of the elements of all parts together. Empty parts are ignored; if all are
 * empty, the result is zero. The computation uses the means of the parts, not sums of squares,
 * because sums of squares lose precision if the mean is large compared with the deviation (Chan,
 * Golub and LeVeque, Algorithms for Computing the Sample Variance, 1983). It uses only float64
 * `+ - * /` in the order of `parts`, so every machine computes the same bits.
 */
export function mergeChannelMoments(parts: readonly ChannelMoments[]): ChannelMoments {
  const channels = parts[0]!.mean.length;
  const mean = new Float32Array(channels);
  const variance = new Float32Array(channels);
  let count = 0;
  for (const part of parts) count += part.count;
  if (count === 0) return { count, mean, variance };
  for (let channel = 0; channel < channels; channel++) {
    let sum = 0;
    for (const part of parts) sum += part.count * part.mean[channel]!;
    const centre = sum / count;
    let squares = 0;
    for (const part of parts) {
      const distance = part.mean[channel]! - centre;
      squares += part.count * (part.variance[channel]! + distance * distance);
    }
    mean[channel] = centre;
    variance[channel] = squares / count;
  }
  return { count, mean, variance };
}
