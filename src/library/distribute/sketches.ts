/**
 * Sketches of tensors, by which ranks notice that their samples differ or are in another order. A
 * digest of the bytes would differ between ranks whose devices have rounded otherwise.
 */
import * as tf from '@tensorflow/tfjs';
import { createRng } from '../../util/rng.ts';

/** Sums over the values of a tensor. */
export interface Sketch {
  /** Sum with a random weight for each column; it does not depend on the order of rows. */
  content: number;
  /** Sum with a random weight for each column and row. */
  order: number;
  /** Root of the sum of squares. */
  size: number;
}

/** Rounding of float32 changes a sum by about 1e-7 of the size. */
const TOLERANCE = 1e-5;

/** Values that are read from the device at once. */
const CHUNK = 2 ** 22;

/** Sketches of tensors, whose values never change. */
const known = new WeakMap<object, { shape: readonly number[]; sketch: Sketch }>();

/** Returns the sketch of a tensor, whose first axis is that of rows. */
export async function sketchOf(tensor: tf.Tensor): Promise<Sketch> {
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

/** Returns the sketch of one value for each row. */
export function sketchOfColumn(values: Float32Array): Sketch {
  const sums = new SketchSums(1);
  sums.add(values);
  return sums.sketch;
}

class SketchSums {
  readonly #columns: Float64Array;
  readonly #rowWeights = createRng(2);
  #content = 0;
  #order = 0;
  #squares = 0;

  constructor(width: number) {
    const rng = createRng(1);
    this.#columns = Float64Array.from({ length: width }, () => 1 + rng.next());
  }

  /** Adds whole rows. */
  add(values: ArrayLike<number | string>): void {
    const width = this.#columns.length;
    for (let row = 0; row < values.length; row += width) {
      let [sum, squares] = [0, 0];
      for (let column = 0; column < width; column++) {
        const value = numberOf(values[row + column]!);
        sum += this.#columns[column]! * value;
        squares += value * value;
      }
      this.#content += sum;
      this.#order += (2 * this.#rowWeights.next() - 1) * sum;
      this.#squares += squares;
    }
  }

  get sketch(): Sketch {
    return { content: this.#content, order: this.#order, size: Math.sqrt(this.#squares) };
  }
}

/** Other values than finite numbers, such as words and missing values, must be equal, too. */
function numberOf(value: number | string): number {
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  return Array.from(String(value)).reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)!) % 65_521, 1);
}

/** Returns whether values or their order differ; `null`: neither. */
export function contrast(mine: Sketch, theirs: Sketch): 'order' | 'values' | null {
  const bound = TOLERANCE * Math.max(mine.size, theirs.size);
  if (Math.abs(mine.order - theirs.order) <= bound) return null;
  return Math.abs(mine.content - theirs.content) > bound ? 'values' : 'order';
}
