/** Splits samples into training and held-out samples, for files that do not define a split. */
import type { DataNote } from '../spec/preview.ts';
import { DataError } from '../util/errors.ts';
import { mixSeed, permutation } from '../util/rng.ts';

/**
 * This number is mixed into the seed, so that the split does not use the same random numbers as
 * other parts of the job.
 */
const SPLIT_WORD = 0x5e1d;
/** One in this number of samples is held out. */
const FOLD = 5;

/**
 * Returns notes about the classes that have no held-out samples.
 *
 * @param isHeldOut returns whether a class has held-out samples (default: if it has at least two
 *   samples).
 */
export function notHeldOut(
  classes: Iterable<readonly [name: string, samples: number]>,
  isHeldOut = (_: string, samples: number): boolean => samples > 1,
): DataNote[] {
  return [...classes].flatMap(([name, count]) =>
    isHeldOut(name, count) ? [] : [{ kind: 'class-not-held-out', count, name, example: '' } as const],
  );
}

/** @throws DataError if no class has two samples: then none can be both trained and tested. */
export function checkSingles(of: string, counts: readonly number[]): void {
  if (counts.some((count) => count > 1)) return;
  throw new DataError(
    `${of}: each of the ${counts.length} classes has a single sample, so no class can be in both training and evaluation. Add samples.`,
  );
}

export interface Split {
  train: Uint32Array;
  test: Uint32Array;
}

/**
 * Splits the samples 0 .. n-1 by a seeded permutation. About a fifth of each class is held out. A
 * class with at least two samples is in both parts. If a class has a single sample, this sample is
 * for training. If all classes have a single sample, one of these samples is held out. Both parts
 * are sorted. All ranks compute the same split.
 *
 * @param labels the class of each sample; equal values if the samples have no classes.
 */
export function trainTestSplit(labels: ArrayLike<number>, seed: number): Split {
  const order = permutation(labels.length, mixSeed(seed, SPLIT_WORD));
  const members = new Map<number, number>();
  for (const i of order) members.set(labels[i]!, (members.get(labels[i]!) ?? 0) + 1);
  // Fifths are counted over all classes together. If they were counted for each class, many small
  // classes would be rounded down.
  let end = 0;
  let held = 0;
  /** Number of samples of each class that are for training and not yet found. */
  const left = new Map<number, number>();
  for (const [label, count] of members) {
    const start = end;
    if (count > 1) end += count;
    const heldOut = count > 1 ? Math.max(1, Math.floor(end / FOLD) - Math.floor(start / FOLD)) : 0;
    left.set(label, count - heldOut);
    held += heldOut;
  }
  const isTest = new Uint8Array(labels.length);
  for (const i of order) {
    const more = left.get(labels[i]!)!;
    if (more === 0) isTest[i] = 1;
    else left.set(labels[i]!, more - 1);
  }
  const last = order.at(-1);
  if (held === 0 && last !== undefined) isTest[last] = 1;
  const test = new Uint32Array(last === undefined ? 0 : Math.max(1, held));
  const train = new Uint32Array(labels.length - test.length);
  let [trained, tested] = [0, 0];
  for (const [i, is] of isTest.entries()) {
    if (is === 1) test[tested++] = i;
    else train[trained++] = i;
  }
  return { train, test };
}
