/**
 * What is left out of a pass while a model learns. Drawn by (seed, step, sample, place in the
 * model): whichever rank computes a sample leaves out the same, so that N ranks learn what one
 * would.
 */
import { createRng, mixSeed } from '../../util/rng.ts';

/** Keeps dropout apart from the job's other random numbers. */
const DROPOUT_WORD = 0xd209;

interface DropoutOptions {
  seed: number;
  step: number;
  /** Number of this dropout layer in the model. */
  place: number;
  /** Share that is left out. */
  rate: number;
  /** Numbers of one sample. */
  length: number;
  /**
   * Samples that there is room for: those behind `indices` are padding, of which nothing is left.
   */
  size: number;
}

/**
 * What numbers of samples `indices` are multiplied with, [size * length]: 0, or what makes up for
 * those.
 */
export function dropoutMask(
  indices: Uint32Array,
  { seed, step, place, rate, length, size }: DropoutOptions,
): Float32Array<ArrayBuffer> {
  const kept = 1 / (1 - rate);
  const mask = new Float32Array(size * length);
  for (const [i, index] of indices.entries()) {
    const rng = createRng(mixSeed(seed, DROPOUT_WORD, step, index, place));
    for (let at = i * length; at < (i + 1) * length; at++) mask[at] = rng.next() < rate ? 0 : kept;
  }
  return mask;
}
