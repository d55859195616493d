/**
 * Converts between the arguments of the functional collectives (tensors or typed arrays) and the
 * typed arrays that a process group sends.
 */
import * as tf from '@tensorflow/tfjs';
import { newZeros, type TypedArray } from '../collectives/dtypes.ts';
import type { OpOptions } from '../collectives/options.ts';
import type { ProcessGroup } from '../collectives/processGroup.ts';
import { ReduceOp } from '../protocol/frame.ts';
import { UsageError } from '../util/errors.ts';
import { elementCountOf } from '../util/shape.ts';

/** The values that a functional collective accepts: a tensor, a variable, or a typed array. */
export type Values = tf.Tensor | TypedArray;

/**
 * The type of a functional collective's result: a tensor if the argument is a tensor, and an array
 * if the argument is an array.
 */
export type ResultOf<V extends Values> = V extends tf.Tensor<infer R> ? tf.Tensor<R> : V;

/**
 * The options of a {@link ProcessGroup} method, without those that functional collectives set
 * themselves.
 */
export type FunctionalCollectiveOptions<Options> = Omit<Options, 'after' | 'shape' | 'bucket' | 'residual'>;

type Dtype = 'float32' | 'int32' | 'bool';

const ARRAYS = { float32: Float32Array, int32: Int32Array, bool: Uint8Array } as const;

const ADVICE: Partial<Record<tf.DataType, string>> = {
  complex64: 'Send tf.real(tensor) and tf.imag(tensor).',
  string: 'Send strings with the allGatherObject or broadcastObject of the group.',
};

const BOOL_REDUCTIONS: readonly ReduceOp[] = [ReduceOp.MIN, ReduceOp.MAX, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR];

/** An argument of a collective as a typed array. */
export interface ArgumentPayload {
  /**
   * Contains the argument's values after `options.after` has resolved. It is not the caller's
   * array.
   */
  readonly array: TypedArray;
  readonly options: Pick<OpOptions, 'shape'> & { after?: Promise<void> };
  /** Size of the first dimension; 1 for a scalar. */
  readonly rows: number;
  /** Number of elements of one row, which is an entry of the first dimension. */
  readonly rowSize: number;
  /**
   * Converts an array to a result of the argument's type: a tensor or an array.
   *
   * @param rows the size of the result's first dimension. By default, it is that of the argument.
   */
  readonly wrap: (array: TypedArray, rows?: number) => Values;
}

/**
 * Starts to read the values of an argument.
 *
 * @param call the name of the collective, for error messages.
 * @throws UsageError if the tensor is disposed or has a dtype that cannot be sent.
 */
export function argumentPayloadOf(values: Values, call: string, group: ProcessGroup): ArgumentPayload {
  const payload = emptyArgumentPayloadOf(values, call, group);
  if (!(values instanceof tf.Tensor)) {
    // If the value is not a typed array either, the process group rejects it.
    return { ...payload, array: ArrayBuffer.isView(values) ? values.slice() : values };
  }
  const after = readInto(payload.array, values);
  // A collective that is rejected early does not await this promise, whose rejection must then not
  // count as unhandled.
  after.catch(() => {});
  return { ...payload, options: { ...payload.options, after } };
}

/**
 * Does the same as {@link argumentPayloadOf}, but uses only the shape and the dtype of the
 * argument, not its values.
 */
export function emptyArgumentPayloadOf(like: Values, call: string, group: ProcessGroup): ArgumentPayload {
  if (!(like instanceof tf.Tensor)) {
    const array = ArrayBuffer.isView(like) ? newZeros(like, like.length) : like;
    return { array, options: {}, rows: array.length, rowSize: 1, wrap: (result) => result };
  }
  const dtype = checkTensor(like, call, group);
  const shape = [...like.shape];
  const [rows = 1, ...row] = shape;
  return {
    array: new ARRAYS[dtype](like.size),
    options: { shape },
    rows,
    rowSize: elementCountOf(row),
    wrap: (array, count = rows) =>
      tf.tensor(array as Float32Array, shape.length === 0 ? shape : [count, ...row], dtype),
  };
}

/**
 * Checks that a reduction of bool tensors has truth values as its result.
 *
 * @throws UsageError for other reductions, such as a sum.
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
