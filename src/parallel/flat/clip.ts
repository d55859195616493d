/** Gradient clipping. */
import { UsageError } from '../../util/errors.ts';
import type { ElementRange } from '../../util/range.ts';

/** Keeps the scale finite if the gradient is zero. PyTorch uses the same value. */
const EPSILON = 1e-6;

/**
 * Scales `gradient` down in place so that its L2 norm is at most `maxNorm`, as
 * torch.nn.utils.clip_grad_norm_ does
 * (https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html). It sums in
 * float64 in the array's order, so the result has the same bits on every machine.
 *
 * @param ranges the elements that are included in the norm and scaled.
 * @returns the norm before clipping. If the norm is not finite, the gradient becomes invalid, as in
 *   PyTorch.
 * @throws UsageError if `maxNorm` is negative or NaN.
 */
export function clipGradNorm(gradient: Float32Array, ranges: readonly ElementRange[], maxNorm: number): number {
  const norm = Math.sqrt(sumOfSquaresIn(gradient, ranges));
  scaleDownToNorm(gradient, ranges, norm, maxNorm);
  return norm;
}

/** Returns the sum of the squared elements. */
export function sumOfSquaresIn(gradient: Float32Array, ranges: readonly ElementRange[]): number {
  let squares = 0;
  for (const { start, end } of ranges) for (let i = start; i < end; i++) squares += gradient[i]! * gradient[i]!;
  return squares;
}

/** Scales the elements of a gradient from the norm `norm` to a norm of at most `maxNorm`. */
export function scaleDownToNorm(
  gradient: Float32Array,
  ranges: readonly ElementRange[],
  norm: number,
  maxNorm: number,
): void {
  const scale = clipScale(norm, maxNorm);
  if (scale >= 1) return;
  for (const { start, end } of ranges) for (let i = start; i < end; i++) gradient[i]! *= scale;
}

/**
 * Returns the factor that scales a gradient of this norm down to `maxNorm`; at least 1 if the norm
 * is small enough.
 *
 * @throws UsageError if `maxNorm` is negative or NaN.
 */
export function clipScale(norm: number, maxNorm: number): number {
  if (!(maxNorm >= 0)) throw new UsageError(`maxNorm is ${maxNorm}; pass a number of at least 0.`);
  return maxNorm / (norm + EPSILON);
}
