/** What a job trains and tests on: labelled samples, read by index. */
import type { SampleFacts } from '../spec/dataFacts.ts';
import { UsageError } from '../util/errors.ts';
import { sizeOf } from '../util/shape.ts';

/**
 * Labelled samples. Reading the same index gives the same bits on every machine, but for pictures,
 * which browsers decode as they like.
 */
export interface Dataset {
  /** Number of samples. */
  readonly size: number;
  /** Shape of one sample: [height, width, channels]; a row of numbers is [1, 1, numbers]. */
  readonly inputShape: readonly [number, number, number];
  /** Labels are 0 .. classes-1; 1 where a label is an amount to predict. */
  readonly classes: number;
  /** What people call the classes; without them, numbers do. */
  readonly classNames?: readonly string[];
  /**
   * Where labels are amounts: one stands for so much of the amount's own unit, above the amount's
   * mean.
   */
  readonly labelUnit?: number;
  /** The meaning of inputs and labels, of samples from files; without it, the job defines it. */
  readonly facts?: SampleFacts;
  /**
   * What stands for the samples where ranks compare theirs; without it, sizes and some samples do.
   */
  readonly digest?: string;
  /**
   * Writes the samples `indices` one after the other to the front of `inputs` (pixels in 0 .. 1)
   * and `labels`. Longer arrays are allowed, for batches padded to a fixed shape: what lies behind
   * is left alone. Sets that lie in files resolve later.
   *
   * @throws UsageError if an index is not of this dataset or an array is too short; DataError if a
   *   file cannot be read.
   */
  read(indices: ArrayLike<number>, inputs: Float32Array, labels: Labels): void | Promise<void>;
}

/** Whole numbers where they are classes. */
export type Labels = Int32Array | Float32Array;

/** Floats in one sample. */
export function sampleLength(data: Pick<Dataset, 'inputShape'>): number {
  return sizeOf(data.inputShape);
}

/** The checks of {@link Dataset.read}. */
export function checkRead(data: Dataset, indices: ArrayLike<number>, inputs: Float32Array, labels: Labels): void {
  const length = sampleLength(data);
  if (inputs.length < indices.length * length || labels.length < indices.length) {
    throw new UsageError(
      `${indices.length} samples need ${indices.length * length} inputs and ${indices.length} labels, and there is ` +
        `room for ${inputs.length} and ${labels.length}: pass longer arrays.`,
    );
  }
  for (let i = 0; i < indices.length; i++) {
    const index = indices[i]!;
    if (!Number.isInteger(index) || index < 0 || index >= data.size) {
      throw new UsageError(`There is no sample ${index}: this dataset has samples 0 .. ${data.size - 1}.`);
    }
  }
}

/**
 * 8-bit grey images in memory, 0 read as 0.0 and 255 as 1.0. A range of the arrays it is given,
 * which it does not copy.
 */
export class ImageDataset implements Dataset {
  readonly size: number;
  readonly inputShape: readonly [number, number, 1];
  readonly classes: number;
  readonly #pixels: Uint8Array;
  readonly #labels: Uint8Array;

  /** `pixels` holds labels.length images of height x width; `labels` are below `classes`. */
  constructor(options: { pixels: Uint8Array; labels: Uint8Array; height: number; width: number; classes: number }) {
    const { pixels, labels, height, width, classes } = options;
    if (pixels.length !== labels.length * height * width) {
      throw new UsageError(`${labels.length} images of ${height} x ${width} are not ${pixels.length} pixels.`);
    }
    this.size = labels.length;
    this.inputShape = [height, width, 1];
    this.classes = classes;
    this.#pixels = pixels;
    this.#labels = labels;
  }

  /** Samples from..to-1 as a dataset of their own. */
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
    checkRead(this, indices, inputs, labels);
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
