/** Arrays of numbers as samples: images, or rows of features, with a label each. */
import type { PreviewPicture } from '../../spec/preview.ts';
import type { ImagesFacts, Moments } from '../../spec/dataFacts.ts';
import { DataError } from '../../util/errors.ts';
import { checkRead, type Dataset, type Labels } from '../dataset.ts';
import type { StoredArray } from '../formats/storedArray.ts';
import { addValue, standardDeviation, emptyMoments } from '../moments.ts';

/** Numbers in a sample: a picture of 256 x 256 in colour. */
const MAX_INPUTS = 256 * 256 * 3;

/** Samples with their labels as they are in the file, of which `rows` count. */
export interface LabelledArrays {
  x: StoredArray;
  /** By row of x. */
  y: Float64Array;
  rows: Uint32Array;
}

/**
 * How numbers are brought to what models learn well from: minus `shift`, times `factor`; one of
 * each, or one for each number.
 */
interface Scaling {
  shift: Float64Array;
  factor: Float64Array;
}

/**
 * The labels of x's rows.
 *
 * @throws (rejects) DataError, with the row or the byte, where they are no whole numbers, or not as
 *   many.
 */
export async function readLabels(x: StoredArray, y: StoredArray): Promise<Float64Array> {
  if (y.rowLength !== 1) {
    throw new DataError(
      `${y.name} has shape (${y.shape.join(', ')}): a label for each sample is needed, as one whole number. Save argmax of it.`,
    );
  }
  if (x.rows !== y.rows) {
    throw new DataError(
      `${x.name} has ${x.rows} samples, and ${y.name} ${y.rows} labels: they do not belong together. Take both from the same set.`,
    );
  }
  const labels = new Float64Array(y.rows);
  for (let row = 0; row < y.rows; row++) {
    await y.readRow(row, labels, row);
    if (!Number.isInteger(labels[row])) {
      throw new DataError(`${y.name}: row ${row} has label ${labels[row]}, and labels are whole numbers. Round them.`);
    }
  }
  return labels;
}

/** @throws DataError where a sample of that shape cannot be learned from. */
export function sampleShape({ name, shape, rowLength }: StoredArray): readonly [number, number, number] {
  const [, a = 0, b = 0, c = 0] = shape;
  const said = `${name} has shape (${shape.join(', ')})`;
  if (rowLength === 0 || rowLength > MAX_INPUTS) {
    throw new DataError(`${said}: ${rowLength} numbers a sample, and 1 to ${MAX_INPUTS} can be learned from.`);
  }
  if (shape.length === 2) return [1, 1, a];
  if (shape.length === 3) return [a, b, 1];
  if (shape.length === 4 && c <= 4) return [a, b, c];
  throw new DataError(
    `${said}, and samples are rows of numbers, (n, numbers), or images, (n, height, width) or (n, height, width, channels)` +
      `${shape.length === 4 && a <= 4 ? ': transpose(0, 2, 3, 1) has channels last' : ''}.`,
  );
}

/**
 * Of numbers that are no bytes: of the training samples, by feature or over whole images. `null`:
 * of bytes it is known what they are.
 */
export async function momentsOf({ x, rows }: LabelledArrays): Promise<Moments[] | null> {
  if (x.type === 'u1') return null;
  const all = Array.from({ length: x.shape.length === 2 ? x.rowLength : 1 }, emptyMoments);
  const values = new Float64Array(x.rowLength);
  for (const row of rows) {
    await x.readRow(row, values);
    for (const [k, value] of values.entries()) addValue(all[k % all.length]!, value);
  }
  return all;
}

/**
 * @throws (rejects) DataError, with the row and the byte, where a number is NaN or infinite. {@link
 *   momentsOf} checks training rows.
 */
export async function checkNumbers({ x, rows }: LabelledArrays): Promise<void> {
  if (!x.type.startsWith('f')) return;
  const values = new Float64Array(x.rowLength);
  for (const row of rows) await x.readRow(row, values);
}

/** Bytes go from 0 to 1; other numbers get mean 0 and deviation 1. */
function scalingOf(moments: readonly Moments[] | null): Scaling {
  if (moments === null) return { shift: Float64Array.of(0), factor: Float64Array.of(1 / 255) };
  return {
    shift: Float64Array.from(moments, ({ mean }) => mean),
    factor: Float64Array.from(moments, (one) => (one.squares === 0 ? 0 : 1 / standardDeviation(one))),
  };
}

export class ArrayDataset implements Dataset {
  readonly size: number;
  readonly inputShape: readonly [number, number, number];
  readonly classes: number;
  readonly classNames: readonly string[];
  readonly facts: ImagesFacts;
  readonly #arrays: LabelledArrays;
  readonly #scaling: Scaling;
  readonly #labels: ReadonlyMap<number, number>;

  constructor(arrays: LabelledArrays, facts: ImagesFacts) {
    const { classes, moments } = facts;
    this.size = arrays.rows.length;
    this.inputShape = sampleShape(arrays.x);
    this.classes = classes.length;
    this.classNames = classes;
    this.facts = facts;
    this.#arrays = arrays;
    this.#scaling = scalingOf(moments);
    this.#labels = new Map(classes.map((label, i) => [Number(label), i]));
  }

  async read(indices: ArrayLike<number>, inputs: Float32Array, labels: Labels): Promise<void> {
    checkRead(this, indices, inputs, labels);
    const { x, y, rows } = this.#arrays;
    const { shift, factor } = this.#scaling;
    const length = x.rowLength;
    await Promise.all(
      Array.from(indices, async (index, i) => {
        const values = new Float64Array(length);
        await x.readRow(rows[index]!, values);
        for (const [k, value] of values.entries()) {
          inputs[i * length + k] = (value - shift[k % shift.length]!) * factor[k % shift.length]!;
        }
        labels[i] = this.#labels.get(y[rows[index]!]!)!;
      }),
    );
  }

  /** Sample `index` to look at, from its darkest value to its brightest. */
  async preview(index: number): Promise<PreviewPicture> {
    const { x, y, rows } = this.#arrays;
    const values = new Float64Array(x.rowLength);
    await x.readRow(rows[index]!, values);
    // Not by spreading them: a sample may have more numbers than a call takes arguments.
    const [least, most] =
      x.type === 'u1' ? [0, 255] : [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
    const [height, width, channels] = this.inputShape;
    const pixels = Uint8Array.from(values, (value) => (most === least ? 0 : (255 * (value - least)) / (most - least)));
    return { pixels, height, width, channels, label: String(y[rows[index]!]) };
  }
}
