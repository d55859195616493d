/**
 * Dropout whose mask depends only on seed, step, sample, and position in the model. Every rank
 * drops the same values of a sample, so N ranks compute the same result as one rank.
 */
import * as tf from '@tensorflow/tfjs';
import { createRng, mixSeed } from '../../util/rng.ts';

/** Makes dropout independent of the job's other random numbers. */
const DROPOUT_WORD = 0xd209;

interface DropoutOptions {
  seed: number;
  step: number;
  /** The index of this dropout layer in the model. */
  place: number;
  /** The fraction of values to drop. */
  rate: number;
  /** The number of values per sample. */
  length: number;
  /**
   * The number of samples in the mask. Samples after `indices` are padding, and all their values
   * are dropped.
   */
  size: number;
}

/**
 * Returns a factor for each value of samples `indices`, [size * length]. The factor is 0 for
 * dropped values. For the other values it is greater than 1, to compensate for the dropped values.
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

/** Passes `masks` to `use`. The masks exist until the promise of `use` resolves. */
export async function withDropoutMasks<T>(masks: tf.Tensor[], use: (masks: tf.Tensor[]) => Promise<T>): Promise<T> {
  try {
    return await use(masks);
  } finally {
    tf.dispose(masks);
  }
}
