/**
 * Computes sketches of tensors. By comparing sketches, ranks notice that their samples differ or
 * are in a different order. Digests of bytes are not used, because they would differ between ranks
 * whose devices round differently.
 */
import * as tf from '@tensorflow/tfjs';
import { createRng } from '../../util/rng.ts';

/**
 * Sums over the values of a tensor. Each column is divided by its Euclidean norm. Without this, a
 * column of large values, such as milliseconds, would hide differences in a column of small values,
 * such as shares.
 */
export interface TensorSketch {
  /** Sum with a random weight for each column; it does not depend on the order of rows. */
  content: number;
  /** Sum with a random weight for each column and row; it depends on the order of rows. */
  order: number;
  /** Sum of the logarithms of the columns' norms, with the weights of `content`. */
  scale: number;
  /** Square root of the number of columns. Rounding errors grow in proportion to it. */
  size: number;
  /** Sum over the values that are not finite numbers, with a random weight for each row. */
  others: number;
}

/**
 * Sums are regarded as equal if their difference, divided by `TensorSketch.size`, is at most this
 * number. Rounding of float32 causes about 1e-7.
 */
const TOLERANCE = 1e-5;

/**
 * A column whose root mean square is smaller than this is divided by a larger number than its norm,
 * because its values may be rounding errors of zeros.
 */
const SMALLEST = 1e-3;

/** Number of values that are read from the device in one call. */
const CHUNK = 2 ** 22;

/**
 * The computed sketches, by the data of their tensors. They stay valid, because the values of a
 * tensor never change.
 */
const known = new WeakMap<object, { shape: readonly number[]; sketch: TensorSketch }>();

/** Returns the sketch of a tensor. The rows are along its first axis. */
export async function sketchOfTensor(tensor: tf.Tensor): Promise<TensorSketch> {
  const before = known.get(tensor.dataId);
  if (before && tf.util.arraysEqual([...before.shape], tensor.shape)) return before.sketch;
  const [rows, width] = [tensor.shape[0], tf.util.sizeFromShape(tensor.shape.slice(1))];
  const sums = new SketchSums(width);
  const rowsOfChunk = Math.max(1, Math.floor(CHUNK / Math.max(1, width)));
  for (let row = 0; row < rows; row += rowsOfChunk) {
    const chunk = tensor.slice(row, Math.min(rowsOfChunk, rows - row));
    sums.add(await chunk.data<keyof tf.DataTypeMap>().finally(() => chunk.dispose()));
  }
  known.set(tensor.dataId, { shape: [...tensor.shape], sketch: sums.sketch });
  return sums.sketch;
}

/** @param values one value for each row. */
export function sketchOfColumn(values: Float32Array): TensorSketch {
  const sums = new SketchSums(1);
  sums.add(values);
  return sums.sketch;
}

class SketchSums {
  readonly #columns: Float64Array;
  readonly #contents: Float64Array;
  readonly #orders: Float64Array;
  readonly #squares: Float64Array;
  readonly #rowWeights = createRng(2);
  #rows = 0;
  #codes = 0;
  #others = 0;

  constructor(width: number) {
    const rng = createRng(1);
    this.#columns = Float64Array.from({ length: width }, () => 1 + rng.next());
    [this.#contents, this.#orders, this.#squares] = [0, 0, 0].map(() => new Float64Array(width)) as Sums;
  }

  /** Adds whole rows. */
  add(values: ArrayLike<number | string>): void {
    // These fields are copied to local variables for speed, because this loop runs for each value
    // of a data set.
    const [columns, contents, orders, squares] = [this.#columns, this.#contents, this.#orders, this.#squares];
    const width = columns.length;
    for (let row = 0; row < values.length; row += width) {
      const weight = 2 * this.#rowWeights.next() - 1;
      this.#rows++;
      for (let column = 0; column < width; column++) {
        const value = values[row + column]!;
        if (typeof value !== 'number' || !Number.isFinite(value)) {
          const code = columns[column]! * codeOf(value);
          this.#codes += code;
          this.#others += weight * code;
          continue;
        }
        contents[column]! += value;
        orders[column]! += weight * value;
        squares[column]! += value * value;
      }
    }
  }

  get sketch(): TensorSketch {
    const width = this.#columns.length;
    const whole = this.#squares.reduce((sum, square) => sum + square, 0);
    const smallest = Math.sqrt(Math.min(whole, SMALLEST ** 2 * this.#rows));
    const sketch = { content: this.#codes, order: 0, scale: 0, size: Math.sqrt(width), others: this.#others };
    if (whole === 0) return sketch;
    for (const [column, weight] of this.#columns.entries()) {
      const size = Math.max(smallest, Math.sqrt(this.#squares[column]!));
      sketch.content += (weight * this.#contents[column]!) / size;
      sketch.order += (weight * this.#orders[column]!) / size;
      sketch.scale += weight * Math.log(size);
    }
    return sketch;
  }
}

type Sums = [Float64Array, Float64Array, Float64Array];

/** Returns a code for a value that is not a finite number: a word, NaN or an infinite value. */
function codeOf(value: number | string): number {
  return Array.from(String(value)).reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)!) % 65_521, 1);
}

/**
 * Returns what differs between two tensors: their values, or only the order of their rows. Returns
 * `null` if they are equal.
 */
export function sketchDifference(mine: TensorSketch, theirs: TensorSketch): 'order' | 'values' | null {
  const bound = TOLERANCE * Math.max(mine.size, theirs.size);
  const differs = (name: keyof TensorSketch): boolean => !(Math.abs(mine[name] - theirs[name]) <= bound);
  if (differs('scale')) return 'values';
  if (!differs('order') && !differs('others')) return null;
  return differs('content') ? 'values' : 'order';
}
