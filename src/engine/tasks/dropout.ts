/**
 * Dropout that depends on (seed, step, sample, position in the model). Every rank drops the same
 * numbers of a sample, so N ranks learn as one would.
 */
import { createRng, mixSeed } from '../../util/rng.ts';

/** Keeps dropout apart from the job's other random numbers. */
const DROPOUT_WORD = 0xd209;

interface DropoutOptions {
  seed: number;
  step: number;
  /** Number of this dropout layer in the model. */
  place: number;
  /** Share that is dropped. */
  rate: number;
  /** Numbers of a sample. */
  length: number;
  /** Samples that the mask has room for. Those after `indices` are padding and are dropped. */
  size: number;
}

/**
 * Factors of the numbers of samples `indices`, [size * length]: 0 for dropped ones, otherwise the
 * factor that compensates for them.
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
