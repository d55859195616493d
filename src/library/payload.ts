/**
 * Converts between the arguments of the functional collectives (tensors or typed arrays) and the
 * typed arrays that a process group sends.
 */
import * as tf from '@tensorflow/tfjs';
import { emptyLike, type TypedArray } from '../collectives/dtypes.ts';
import type { OpOptions } from '../collectives/options.ts';
import type { ProcessGroup } from '../collectives/processGroup.ts';
import { ReduceOp } from '../protocol/frame.ts';
import { UsageError } from '../util/errors.ts';
import { sizeOf } from '../util/shape.ts';

/** The values that a functional collective accepts: a tensor, a variable, or a typed array. */
export type Values = tf.Tensor | TypedArray;

/** The result of a functional collective: a tensor for a tensor, and an array for an array. */
export type ResultOf<V extends Values> = V extends tf.Tensor<infer R> ? tf.Tensor<R> : V;

/** Options of a {@link ProcessGroup} method that functional collectives do not set themselves. */
export type Functional<Options> = Omit<Options, 'after' | 'shape' | 'bucket' | 'residual'>;

type Dtype = 'float32' | 'int32' | 'bool';

const ARRAYS = { float32: Float32Array, int32: Int32Array, bool: Uint8Array } as const;

const ADVICE: Partial<Record<tf.DataType, string>> = {
  complex64: 'Send tf.real(tensor) and tf.imag(tensor).',
  string: 'Send strings with the allGatherObject or broadcastObject of the group.',
};

const BOOL_REDUCTIONS: readonly ReduceOp[] = [ReduceOp.MIN, ReduceOp.MAX, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR];

/** The typed array of an argument of a collective. */
export interface Payload {
  /**
   * Contains the argument's values after `options.after` has resolved. It is not the caller's
   * array.
   */
  readonly array: TypedArray;
  readonly options: Pick<OpOptions, 'shape'> & { after?: Promise<void> };
  /** Number of entries of the first dimension; 1 for a scalar. */
  readonly rows: number;
  /** Number of elements of each of these entries. */
  readonly rowSize: number;
  /**
   * Converts an array to a result like the argument.
   *
   * @param rows the size of the result's first dimension; by default the argument's.
   */
  readonly wrap: (array: TypedArray, rows?: number) => Values;
}

/**
 * Starts to read the values of an argument.
 *
 * @param call the name of the collective, for error messages.
 * @throws UsageError if the tensor is disposed or has a dtype that cannot be sent.
 */
export function payloadOf(values: Values, call: string, group: ProcessGroup): Payload {
  const payload = emptyPayloadOf(values, call, group);
  if (!(values instanceof tf.Tensor)) {
    // Any value that is not a tensor is checked by the process group.
    return { ...payload, array: ArrayBuffer.isView(values) ? values.slice() : values };
  }
  const after = readInto(payload.array, values);
  // A rejected call does not await the promise.
  after.catch(() => {});
  return { ...payload, options: { ...payload.options, after } };
}

/** Like {@link payloadOf}, but only uses the shape and the dtype of the argument. */
export function emptyPayloadOf(like: Values, call: string, group: ProcessGroup): Payload {
  if (!(like instanceof tf.Tensor)) {
    const array = ArrayBuffer.isView(like) ? emptyLike(like, like.length) : like;
    return { array, options: {}, rows: array.length, rowSize: 1, wrap: (result) => result };
  }
  const dtype = checkTensor(like, call, group);
  const shape = [...like.shape];
  const [rows = 1, ...row] = shape;
  return {
    array: new ARRAYS[dtype](like.size),
    options: { shape },
    rows,
    rowSize: sizeOf(row),
    wrap: (array, count = rows) =>
      tf.tensor(array as Float32Array, shape.length === 0 ? shape : [count, ...row], dtype),
  };
}

/**
 * Checks that a reduction of bool tensors results in truth values.
 *
 * @throws UsageError
 */
export function checkBoolReduction(values: Values, op: ReduceOp = ReduceOp.SUM): void {
  if (!(values instanceof tf.Tensor) || values.dtype !== 'bool' || BOOL_REDUCTIONS.includes(op)) return;
  throw new UsageError(
    'A bool tensor supports only the reductions MIN (and), MAX (or), BAND, BOR and BXOR. To count, pass tensor.toInt().',
  );
}

/** @throws UsageError if the tensor is disposed or has a dtype that cannot be sent. */
function checkTensor({ dtype, isDisposed }: tf.Tensor, call: string, { rank, ranks }: ProcessGroup): Dtype {
  const who = rank < 0 ? 'This rank' : `Rank ${ranks[rank]}`;
  if (isDisposed) {
    throw new UsageError(
      `${who} passed a disposed tensor to ${call}. Keep the tensor until ${call} is called; tf.keep keeps it outside tf.tidy.`,
    );
  }
  if (dtype in ARRAYS) return dtype as Dtype;
  const advice = ADVICE[dtype] ?? '';
  throw new UsageError(
    `${who} passed a ${dtype} tensor to ${call}, but tensors must be float32, int32 or bool. ${advice}`,
  );
}

async function readInto(array: TypedArray, tensor: tf.Tensor): Promise<void> {
  const values = await tensor.data<Dtype>();
  // A true value can be any number except 0, but bitwise reductions need 1.
  if (tensor.dtype === 'bool') for (let i = 0; i < values.length; i++) array[i] = values[i] === 0 ? 0 : 1;
  else (array as Float32Array).set(values);
}
