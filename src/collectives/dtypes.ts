/** Dtypes of the typed arrays that collectives accept. */
import { DtypeCode, FRAME_HEADER_BYTES, MAX_FRAME_BYTES } from '../protocol/frame.ts';
import { UsageError } from '../util/errors.ts';
import { encodedDtypeName } from './codecs.ts';

export type TypedArray =
  | Float32Array
  | Float64Array
  | Int32Array
  | Uint32Array
  | Int8Array
  | Uint8Array
  | BigInt64Array
  | BigUint64Array
  | Uint16Array;

interface Dtype {
  readonly code: DtypeCode;
  readonly name: string;
  readonly array: new (buffer: ArrayBufferLike, offset?: number, length?: number) => TypedArray;
  readonly bytes: number;
  readonly isInteger: boolean;
}

function dtype(code: DtypeCode, name: string, array: Dtype['array'] & { BYTES_PER_ELEMENT: number }): Dtype {
  return { code, name, array, bytes: array.BYTES_PER_ELEMENT, isInteger: !name.startsWith('float') };
}

/** Not every browser has Float16Array, so the bits of halves are in a Uint16Array. */
const FLOAT16 = dtype(DtypeCode.FLOAT16, 'float16', Uint16Array);

const DTYPES: readonly Dtype[] = [
  dtype(DtypeCode.FLOAT32, 'float32', Float32Array),
  dtype(DtypeCode.FLOAT64, 'float64', Float64Array),
  dtype(DtypeCode.INT32, 'int32', Int32Array),
  dtype(DtypeCode.UINT32, 'uint32', Uint32Array),
  dtype(DtypeCode.INT8, 'int8', Int8Array),
  dtype(DtypeCode.UINT8, 'uint8', Uint8Array),
  dtype(DtypeCode.INT64, 'int64', BigInt64Array),
  dtype(DtypeCode.UINT64, 'uint64', BigUint64Array),
  FLOAT16,
];

const BY_ARRAY = new Map<unknown, Dtype>(DTYPES.map((entry) => [entry.array, entry]));

export type { Dtype };

/**
 * Returns the dtype of a tensor: the dtype of its array, or float16 for a Uint16Array if `option`
 * is `float16`.
 *
 * @throws UsageError for arrays that collectives do not accept, or an `option` that does not fit.
 */
export function dtypeOf(tensor: TypedArray, option?: 'float16'): Dtype {
  const found = BY_ARRAY.get((tensor as unknown) instanceof Object ? tensor.constructor : null);
  if (found && (found === FLOAT16) === (option === 'float16')) return found;
  const kind = Object.prototype.toString.call(tensor).slice(8, -1);
  if (option !== undefined) throw new UsageError(`float16 values must be bits in a Uint16Array, not ${kind}.`);
  throw new UsageError(
    found
      ? "A Uint16Array can only hold float16 bits. Pass dtype: 'float16', or convert the array to an Int32Array."
      : `Collectives accept typed arrays (Float32Array, Int32Array, BigInt64Array, ...), not ${kind}. Convert the value to a typed array. For a tf.Tensor, use the function of the same name, such as allReduce(tensor, group).`,
  );
}

/** Returns the name of a dtype for error messages, such as `float32` or `float32 as int8`. */
export function dtypeName(code: DtypeCode): string {
  return encodedDtypeName(code) ?? DTYPES.find((entry) => entry.code === code)?.name ?? `unknown dtype ${code}`;
}

/** Returns the maximum number of elements in a frame's payload. */
export function maxSegmentElements({ bytes }: Dtype): number {
  return Math.floor((MAX_FRAME_BYTES - FRAME_HEADER_BYTES) / bytes);
}

/** Returns an array of zeros with the type of `tensor` and the given length. */
export function newZeros<T extends TypedArray>(tensor: T, length: number): T {
  return new (tensor.constructor as new (length: number) => T)(length);
}

/** Returns a part of a tensor. It shares the tensor's memory. */
export function tensorView<T extends TypedArray>(tensor: T, start: number, end: number): T {
  return tensor.subarray(start, end) as T;
}

/** Copies elements between arrays of one dtype. */
export function copyElements(into: TypedArray, from: TypedArray, at: number): void {
  // Both arrays have the same dtype, but the type of `set` cannot express this for a union.
  (into as Float32Array).set(from as Float32Array, at);
}
