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
  const classes = new Map<number, number[]>();
  for (const i of order) {
    const members = classes.get(labels[i]!);
    if (members === undefined) classes.set(labels[i]!, [i]);
    else members.push(i);
  }
  const parts = { train: [] as number[], test: [] as number[] };
  // Fifths are counted over all classes together. If they were counted for each class, many small
  // classes would be rounded down.
  let end = 0;
  for (const members of classes.values()) {
    const start = end;
    if (members.length > 1) end += members.length;
    const heldOut = members.length > 1 ? Math.max(1, Math.floor(end / FOLD) - Math.floor(start / FOLD)) : 0;
    for (const [k, i] of members.entries()) parts[k < members.length - heldOut ? 'train' : 'test'].push(i);
  }
  if (parts.test.length === 0) parts.test.push(...parts.train.splice(-1));
  return { train: Uint32Array.from(parts.train).sort(), test: Uint32Array.from(parts.test).sort() };
}
