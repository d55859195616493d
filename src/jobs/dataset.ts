/** Labelled samples for training and testing, read by index. */
import type { SampleFacts } from '../spec/dataFacts.ts';
import { UsageError } from '../util/errors.ts';
import { elementCountOf } from '../util/shape.ts';
import type { FilePlace } from './dataFile.ts';

/**
 * Labelled samples. A sample has the same bits on every machine. Only pictures may differ, because
 * browsers decode them slightly differently.
 */
export interface Dataset {
  /** Number of samples. */
  readonly size: number;
  /** Shape of one sample: [height, width, channels]. A row of n numbers has the shape [1, 1, n]. */
  readonly inputShape: readonly [number, number, number];
  /**
   * Number of classes; labels are 0 .. classes-1. In a regression, labels are amounts, and this is
   * 1.
   */
  readonly classes: number;
  /** Names of the classes. If missing, the number of a class is shown instead. */
  readonly classNames?: readonly string[];
  /**
   * Regression only: the standard deviation of the amounts, in the unit of the data. A label is
   * (amount - mean) / labelUnit, so labels that differ by 1 stand for amounts that differ by
   * `labelUnit`.
   */
  readonly labelUnit?: number;
  /**
   * The meaning of inputs and labels, if the samples come from files. Otherwise the job defines
   * their meaning.
   */
  readonly facts?: SampleFacts;
  /**
   * Digest of the samples. Ranks compare digests to check that they have the same data. Without a
   * digest, they compare the number of samples and some of the samples.
   */
  readonly digest?: string;
  /**
   * Writes the samples `indices` one after the other to the start of `inputs` (pixels from 0 to 1)
   * and `labels`. The arrays may be longer, because batches are padded to a fixed shape; elements
   * after the samples stay unchanged. Returns a promise if the samples are read from files. The
   * promise resolves with the positions in `indices` of samples that cannot be used, if there are
   * any.
   *
   * @throws UsageError if an index is out of range or an array is too short; DataError if a file
   *   cannot be read.
   */
  read(indices: ArrayLike<number>, inputs: Float32Array, labels: Labels): void | Promise<readonly number[] | void>;
  /**
   * Number of samples that are worth reading before they are needed. Missing if samples are in
   * memory.
   */
  readonly ahead?: number;
  /** The contents of the files that samples are read from, for comparison with other ranks. */
  readonly contents?: LazyFileContents;
  /** Returns the place of a sample's file, if each sample is read from a file of its own. */
  placeOf?(index: number): FilePlace;
  /**
   * Reads samples before they are needed.
   *
   * @param next the samples that are needed next, in their order: those of the next step, and at
   *   most {@link ahead} that follow.
   */
  expect?(next: readonly number[]): void;
}

/** The contents of files that are read while the run trains. */
export interface LazyFileContents {
  /** CRC-32 of every file, if an archive states it; otherwise `null`. */
  readonly stated: Uint32Array | null;
  /** CRC-32 of each file that was read. The keys are numbers of files. */
  readonly crcs: ReadonlyMap<number, number>;
  nameOf(file: number): string;
}

/** Integers if labels are classes, floats if labels are amounts. */
export type Labels = Int32Array | Float32Array;

/** Number of floats in one sample. */
export function sampleLength(data: Pick<Dataset, 'inputShape'>): number {
  return elementCountOf(data.inputShape);
}

/** Validates the arguments of {@link Dataset.read}. */
export function checkReadArguments(
  data: Dataset,
  indices: ArrayLike<number>,
  inputs: Float32Array,
  labels: Labels,
): void {
  const length = sampleLength(data);
  if (inputs.length < indices.length * length || labels.length < indices.length) {
    throw new UsageError(
      `${indices.length} samples need ${indices.length * length} inputs and ${indices.length} labels, but the arrays ` +
        `have ${inputs.length} and ${labels.length} elements. Pass longer arrays.`,
    );
  }
  for (let i = 0; i < indices.length; i++) {
    const index = indices[i]!;
    if (!Number.isInteger(index) || index < 0 || index >= data.size) {
      throw new UsageError(`There is no sample ${index}. The samples of this dataset are 0 .. ${data.size - 1}.`);
    }
  }
}

/**
 * 8-bit grey images in memory. Pixels 0 .. 255 are read as 0.0 .. 1.0. The given arrays are not
 * copied.
 */
export class ImageDataset implements Dataset {
  readonly size: number;
  readonly inputShape: readonly [number, number, 1];
  readonly classes: number;
  readonly #pixels: Uint8Array;
  readonly #labels: Uint8Array;

  /** `pixels` has an image of height x width for each label. Labels are less than `classes`. */
  constructor(options: { pixels: Uint8Array; labels: Uint8Array; height: number; width: number; classes: number }) {
    const { pixels, labels, height, width, classes } = options;
    if (pixels.length !== labels.length * height * width) {
      throw new UsageError(
        `${labels.length} images of ${height} x ${width} need ${labels.length * height * width} pixels, but there are ${pixels.length}.`,
      );
    }
    this.size = labels.length;
    this.inputShape = [height, width, 1];
    this.classes = classes;
    this.#pixels = pixels;
    this.#labels = labels;
  }

  /** Returns samples from..to-1 as a separate dataset. */
  slice(from: number, to: number): ImageDataset {
    const [height, width] = this.inputShape;
    const area = height * width;
    return new ImageDataset({
      pixels: this.#pixels.subarray(from * area, to * area),
      labels: this.#labels.subarray(from, to),
      height,
      width,
      classes: this.classes,
    });
  }

  read(indices: ArrayLike<number>, inputs: Float32Array, labels: Labels): void {
    checkReadArguments(this, indices, inputs, labels);
    const area = sampleLength(this);
    const pixels = this.#pixels;
    for (let i = 0; i < indices.length; i++) {
      const index = indices[i]!;
      labels[i] = this.#labels[index]!;
      const from = index * area;
      const to = i * area;
      for (let k = 0; k < area; k++) inputs[to + k] = pixels[from + k]! / 255;
    }
  }
}
