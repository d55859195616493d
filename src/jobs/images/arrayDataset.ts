/** Samples from arrays of numbers. A sample is an image or a row of features, with a label. */
import type { PreviewPicture } from '../../spec/preview.ts';
import type { ImagesFacts, Moments } from '../../spec/dataFacts.ts';
import { DataError } from '../../util/errors.ts';
import { checkReadArguments, type Dataset, type Labels } from '../dataset.ts';
import type { StoredArray } from '../../formats/storedArray.ts';
import { addToMoments, standardDeviation, emptyMoments } from '../../formats/moments.ts';

/** Maximum number of inputs of a sample: as many as a colour image of 256 x 256 pixels has. */
const MAX_INPUTS = 256 * 256 * 3;

/** Samples and labels as stored in the files. Only the rows listed in `rows` are used. */
export interface LabelledRows {
  x: StoredArray;
  /** The label of each row of `x`. */
  y: Float64Array;
  rows: Uint32Array;
}

/**
 * Scaling of inputs: `shift` is subtracted, then the result is multiplied by `factor`. Each array
 * has either one element for all inputs or one element per input.
 */
interface Scaling {
  shift: Float64Array;
  factor: Float64Array;
}

/**
 * Reads the labels of all rows of `x`.
 *
 * @throws (rejects) DataError if a label is not an integer or the numbers of samples and labels
 *   differ.
 */
export async function readLabels(x: StoredArray, y: StoredArray): Promise<Float64Array> {
  if (y.rowLength !== 1) {
    throw new DataError(
      `${y.name} has shape (${y.shape.join(', ')}), but labels must be one integer per sample. If the labels are one-hot, save their argmax.`,
    );
  }
  if (x.rows !== y.rows) {
    throw new DataError(
      `${x.name} has ${x.rows} samples, but ${y.name} has ${y.rows} labels, so they do not belong together. Choose both files from the same data set.`,
    );
  }
  const labels = new Float64Array(y.rows);
  for (let row = 0; row < y.rows; row++) {
    await y.readRow(row, labels, row);
    if (!Number.isInteger(labels[row])) {
      throw new DataError(`${y.name}: row ${row} has label ${labels[row]}, but labels must be integers. Round them.`);
    }
  }
  return labels;
}

/**
 * Returns the shape of a sample: [height, width, channels].
 *
 * @throws DataError if samples of that shape are not supported.
 */
export function sampleShape({ name, shape, rowLength }: StoredArray): readonly [number, number, number] {
  const [, a = 0, b = 0, c = 0] = shape;
  const found = `${name} has shape (${shape.join(', ')})`;
  if (rowLength === 0) throw new DataError(`${found}, so its samples have no numbers. Check how the file was saved.`);
  if (rowLength > MAX_INPUTS) {
    throw new DataError(
      `${found}, so a sample has ${rowLength} numbers, but at most ${MAX_INPUTS} are supported. Use smaller samples.`,
    );
  }
  if (shape.length === 2) return [1, 1, a];
  if (shape.length === 3) return [a, b, 1];
  if (shape.length === 4 && c <= 4) return [a, b, c];
  throw new DataError(
    `${found}, but it must be (n, numbers) for rows of numbers, or (n, height, width) or (n, height, width, channels) for images` +
      `${shape.length === 4 && a <= 4 ? '. Use transpose(0, 2, 3, 1) to move the channels last' : ''}.`,
  );
}

/**
 * Returns the moments of the training samples. For rows of numbers, each feature has its own
 * moments. For images, there is one set of moments for all pixels together. Returns `null` for
 * bytes, because their range is known.
 */
export async function momentsOfLabelledRows({ x, rows }: LabelledRows): Promise<Moments[] | null> {
  if (x.type === 'u1') return null;
  const all = Array.from({ length: x.shape.length === 2 ? x.rowLength : 1 }, emptyMoments);
  const values = new Float64Array(x.rowLength);
  for (const row of rows) {
    await x.readRow(row, values);
    for (const [k, value] of values.entries()) addToMoments(all[k % all.length]!, value);
  }
  return all;
}

/**
 * Reads all held-out rows once and checks their numbers. {@link momentsOfLabelledRows} has already
 * checked training rows.
 *
 * @throws (rejects) DataError if a number is NaN or infinite. The error names the row and the byte.
 */
export async function checkRowsAreFinite({ x, rows }: LabelledRows): Promise<void> {
  if (!x.type.startsWith('f')) return;
  const values = new Float64Array(x.rowLength);
  for (const row of rows) await x.readRow(row, values);
}

/**
 * Returns the scaling of inputs. Bytes are scaled to 0 .. 1. Other numbers are scaled to mean 0 and
 * standard deviation 1.
 */
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
  readonly #arrays: LabelledRows;
  readonly #scaling: Scaling;
  readonly #labels: ReadonlyMap<number, number>;

  constructor(arrays: LabelledRows, facts: ImagesFacts) {
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
    checkReadArguments(this, indices, inputs, labels);
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

  /**
   * Returns a picture of sample `index` for the preview. Bytes are shown as they are. Other numbers
   * are scaled, so that the smallest value of the sample is black and the largest is white.
   */
  async preview(index: number): Promise<PreviewPicture> {
    const { x, y, rows } = this.#arrays;
    const values = new Float64Array(x.rowLength);
    await x.readRow(rows[index]!, values);
    // Math.min(...values) fails, because a call accepts fewer arguments than a sample may have.
    const [least, most] =
      x.type === 'u1' ? [0, 255] : [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
    const [height, width, channels] = this.inputShape;
    const pixels = Uint8Array.from(values, (value) => (most === least ? 0 : (255 * (value - least)) / (most - least)));
    return { pixels, height, width, channels, label: String(y[rows[index]!]) };
  }
}
