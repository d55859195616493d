/**
 * Random changes of training pictures. The changes of a picture depend only on seed, epoch, and
 * sample, so every rank changes it in the same way. The changes use no functions whose last bits
 * differ between engines.
 */
import type { StoredArray } from '../../formats/storedArray.ts';
import type { JobSpec } from '../../spec/job.ts';
import { AUGMENT_NAMES, type AugmentName } from '../../spec/names.ts';
import type { DataNote, PreviewPicture } from '../../spec/preview.ts';
import { DataError } from '../../util/errors.ts';
import { createRng, mixSeed, type Rng } from '../../util/rng.ts';
import { elementCountOf } from '../../util/shape.ts';

/** Makes the changes independent of the job's other random numbers. */
const AUGMENT_WORD = 0xa063;
/** `shift` moves a picture by at most this part of its height and width. */
const MOST_SHIFTED = 1 / 8;
/** `colour` draws its factors from 1 - COLOUR_RANGE to 1 + COLOUR_RANGE. */
const COLOUR_RANGE = 0.4;

type Shape = readonly [height: number, width: number, channels: number];

/** Changes a picture in place. */
type Change = (pixels: Float32Array, shape: Shape, rng: Rng) => void;

const CHANGES: Record<AugmentName, Change> = { flip, shift, colour };

/**
 * Returns a function that changes pictures in place. `inputs` starts with the pictures of samples
 * `indices`. Each kind of change draws its own random numbers, so its effect does not depend on the
 * other kinds.
 */
export function createAugmentation(
  names: JobSpec['augment'],
  shape: Shape,
  seed: number,
): (inputs: Float32Array, indices: ArrayLike<number>, epoch: number) => void {
  const kinds = [...AUGMENT_NAMES.entries()].filter(([, name]) => names?.includes(name));
  const length = elementCountOf(shape);
  return (inputs, indices, epoch) => {
    for (const [kind, name] of kinds) {
      for (let i = 0; i < indices.length; i++) {
        const rng = createRng(mixSeed(seed, AUGMENT_WORD, epoch, indices[i]!, kind));
        CHANGES[name](inputs.subarray(i * length, (i + 1) * length), shape, rng);
      }
    }
  };
}

/** Mirrors every second picture, on average, at its vertical axis. */
function flip(pixels: Float32Array, shape: Shape, rng: Rng): void {
  if (rng.below(2) === 0) return;
  const [, width] = shape;
  move(
    pixels,
    shape,
    (row) => row,
    (column) => width - 1 - column,
  );
}

/**
 * Moves a picture by whole pixels. The empty part repeats the pixels of the border. It is not set
 * to 0, because 0 is black only if pixels are not standardized.
 */
function shift(pixels: Float32Array, shape: Shape, rng: Rng): void {
  const [height, width] = shape;
  const [down, right] = [drawShift(height, rng), drawShift(width, rng)];
  move(
    pixels,
    shape,
    (row) => Math.min(height - 1, Math.max(0, row - down)),
    (column) => Math.min(width - 1, Math.max(0, column - right)),
  );
}

function drawShift(side: number, rng: Rng): number {
  const most = Math.floor(side * MOST_SHIFTED);
  return rng.below(2 * most + 1) - most;
}

/** Gives each pixel the value that the pixel of another row and column had before. */
function move(
  pixels: Float32Array,
  [height, width, channels]: Shape,
  rowOf: (row: number) => number,
  columnOf: (column: number) => number,
): void {
  const before = pixels.slice();
  const length = width * channels;
  const sources = Int32Array.from(
    { length },
    (_, at) => columnOf(Math.floor(at / channels)) * channels + (at % channels),
  );
  for (let row = 0; row < height; row++) {
    const from = rowOf(row) * length;
    for (let at = 0; at < length; at++) pixels[row * length + at] = before[from + sources[at]!]!;
  }
}

/**
 * Changes brightness, contrast and, with 3 channels, saturation, as torchvision's ColorJitter does,
 * but always in this order. Pixels are from 0 to 1.
 */
function colour(pixels: Float32Array, [, , channels]: Shape, rng: Rng): void {
  const [brightness, contrast, saturation] = [drawFactor(rng), drawFactor(rng), drawFactor(rng)];
  blend(pixels, brightness, 0, 0, pixels.length);
  blend(pixels, contrast, channels === 3 ? meanGreyOf(pixels) : meanOf(pixels), 0, pixels.length);
  if (channels !== 3) return;
  for (let at = 0; at < pixels.length; at += 3) blend(pixels, saturation, greyAt(pixels, at), at, at + 3);
}

function drawFactor(rng: Rng): number {
  return 1 + COLOUR_RANGE * (2 * rng.next() - 1);
}

/**
 * Multiplies the distances of pixels[from..to-1] from `origin`, and limits the values to 0 .. 1.
 */
function blend(pixels: Float32Array, factor: number, origin: number, from: number, to: number): void {
  for (let at = from; at < to; at++) {
    pixels[at] = Math.min(1, Math.max(0, origin + factor * (pixels[at]! - origin)));
  }
}

/** Returns the grey value of the pixel whose red is at `at`, as in torchvision. */
function greyAt(pixels: Float32Array, at: number): number {
  return 0.2989 * pixels[at]! + 0.587 * pixels[at + 1]! + 0.114 * pixels[at + 2]!;
}

function meanGreyOf(pixels: Float32Array): number {
  let sum = 0;
  for (let at = 0; at < pixels.length; at += 3) sum += greyAt(pixels, at);
  return (3 * sum) / pixels.length;
}

function meanOf(values: Float32Array): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / values.length;
}

/** @throws DataError if samples of the array `x` cannot be changed as a job says. */
export function checkAugmentFitsArray(names: JobSpec['augment'], { name, shape, type, rowLength }: StoredArray): void {
  if (names === null) return;
  if (shape.length === 2) {
    throw new DataError(
      `${name} has rows of ${rowLength} numbers, but augment changes pictures. Remove augment from the job, or reshape the array.`,
    );
  }
  if (names.includes('colour') && type !== 'u1') {
    throw new DataError(
      `${name} has type ${type}, but the augmentation "colour" needs pixels of 0 to 255. Remove "colour" from the field augment, or save the array as uint8.`,
    );
  }
}

/**
 * Returns a preview of training sample `index`, changed as in the first epoch. If `index` is -1,
 * the picture is held out, and it is not changed.
 */
export function augmentedPreview(
  names: JobSpec['augment'],
  picture: PreviewPicture,
  { seed, index }: { seed: number; index: number },
): PreviewPicture {
  if (index === -1) return picture;
  const { pixels, height, width, channels } = picture;
  const inputs = Float32Array.from(pixels, (value) => value / 255);
  createAugmentation(names, [height, width, channels], seed)(inputs, [index], 0);
  return { ...picture, pixels: Uint8Array.from(inputs, (value) => Math.round(255 * value)) };
}

/** Returns a note for each change of the training pictures. */
export function augmentNotes(names: JobSpec['augment'], count: number): DataNote[] {
  return (names ?? []).map((name) => ({ kind: 'augmented', count, name, example: '' }));
}
