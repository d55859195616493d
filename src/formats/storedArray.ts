/** Arrays of numbers in npy and IDX files. Rows are read from the file on demand. */
import { DataError, UsageError } from '../util/errors.ts';
import { elementCountOf } from '../util/shape.ts';
import { MAX_DATA_NUMBER } from './moments.ts';
import type { PartialFile } from './partialFile.ts';

/**
 * NumPy's short names of element types. The letter is the kind, and the digit is the number of
 * bytes. `b1` is a boolean.
 */
export const NUMPY_ELEMENT_TYPES = ['b1', 'i1', 'u1', 'i2', 'u2', 'i4', 'u4', 'i8', 'f4', 'f8'] as const;
export type NumpyElementType = (typeof NUMPY_ELEMENT_TYPES)[number];

export interface StoredArrayLayout {
  /** Length of each dimension. The first is the number of rows. */
  shape: readonly number[];
  type: NumpyElementType;
  isLittleEndian: boolean;
  /**
   * Byte offset of the first element in the file. Elements are in C order: the last dimension
   * varies fastest.
   */
  offset: number;
}

export function bytesPerElement(type: NumpyElementType): number {
  return Number(type[1]);
}

/** Returns a function that reads one element as a number. */
function elementReader(type: NumpyElementType, isLittleEndian: boolean): (view: DataView, at: number) => number {
  switch (type) {
    case 'b1':
      return (view, at) => (view.getUint8(at) === 0 ? 0 : 1);
    case 'i1':
      return (view, at) => view.getInt8(at);
    case 'u1':
      return (view, at) => view.getUint8(at);
    case 'i2':
      return (view, at) => view.getInt16(at, isLittleEndian);
    case 'u2':
      return (view, at) => view.getUint16(at, isLittleEndian);
    case 'i4':
      return (view, at) => view.getInt32(at, isLittleEndian);
    case 'u4':
      return (view, at) => view.getUint32(at, isLittleEndian);
    case 'i8':
      return (view, at) => Number(view.getBigInt64(at, isLittleEndian));
    case 'f4':
      return (view, at) => view.getFloat32(at, isLittleEndian);
    case 'f8':
      return (view, at) => view.getFloat64(at, isLittleEndian);
    default:
      throw new UsageError(`Unknown element type "${String(type satisfies never)}".`);
  }
}

export class StoredArray {
  readonly shape: readonly number[];
  readonly type: NumpyElementType;
  /** Number of elements in a row. */
  readonly rowLength: number;
  readonly #file: PartialFile;
  readonly #offset: number;
  readonly #element: (view: DataView, at: number) => number;

  constructor(file: PartialFile, { shape, type, isLittleEndian, offset }: StoredArrayLayout) {
    this.shape = shape;
    this.type = type;
    this.rowLength = elementCountOf(shape.slice(1));
    this.#file = file;
    this.#offset = offset;
    this.#element = elementReader(type, isLittleEndian);
  }

  /** The file's name, for errors. */
  get name(): string {
    return this.#file.name;
  }

  get rows(): number {
    return this.shape[0]!;
  }

  /** Reads the bytes of all elements, as they are stored in the file. */
  readBytes(): Promise<Uint8Array<ArrayBuffer>> {
    return this.#file.read(this.#offset, this.#offset + elementCountOf(this.shape) * bytesPerElement(this.type));
  }

  /**
   * Writes row `index` to `out`, starting at `at`.
   *
   * @throws (rejects) DataError if the file cannot be read, or an element is NaN or infinite.
   */
  async readRow(index: number, out: Float32Array | Float64Array, at = 0): Promise<void> {
    const size = bytesPerElement(this.type);
    const from = this.#offset + index * this.rowLength * size;
    const { buffer, byteOffset, byteLength } = await this.#file.read(from, from + this.rowLength * size);
    const view = new DataView(buffer, byteOffset, byteLength);
    for (let k = 0; k < this.rowLength; k++) {
      const value = this.#element(view, k * size);
      if (!Number.isFinite(value)) {
        throw new DataError(
          `${this.name}: row ${index} has ${value} at byte ${from + k * size}, but only finite numbers are supported. ` +
            'Replace missing values before saving the array.',
        );
      }
      if (Math.abs(value) > MAX_DATA_NUMBER) {
        throw new DataError(
          `${this.name}: row ${index} has ${value} at byte ${from + k * size}. Numbers may be at most ${MAX_DATA_NUMBER} in size. Use a larger unit.`,
        );
      }
      out[at + k] = value;
    }
  }
}
