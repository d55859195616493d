/** Messages between a DataParallel and its replicas, and the tensors in them. */
import * as tf from '@tensorflow/tfjs';
import { elementCountOf } from '../../util/shape.ts';
import type { ReplicaModelDescription } from './replicaModel.ts';

/** A tensor as an array. The type of the array corresponds to the dtype float32, int32 or bool. */
export interface ArrayTensor {
  values: Float32Array<ArrayBuffer> | Int32Array<ArrayBuffer> | Uint8Array<ArrayBuffer>;
  shape: number[];
}

/** A call to a replica. Every call is answered, except `close`. */
export type ReplicaCall =
  /** Opens the device and builds the model. */
  | { type: 'start'; model: ReplicaModelDescription }
  /** Sets the weights. Each of the two arrays is flat. */
  | { type: 'replicate'; parameters: Float32Array<ArrayBuffer>; buffers: Float32Array<ArrayBuffer> }
  /** Runs the model. If `training` is set, the replica keeps the pass for `backward`. */
  | { type: 'forward'; inputs: ArrayTensor[]; training: boolean }
  /** Back-propagates the gradients of the outputs through the kept pass. */
  | { type: 'backward'; gradients: ArrayTensor[] }
  /** Drops the kept pass. */
  | { type: 'drop' }
  | { type: 'close' };

/** The largest amount of memory that a replica used in its latest pass. */
export interface PassMemory {
  bytes: number;
  tensors: number;
}

/**
 * The answer to a call. `tensors` has the outputs after `forward`, and the flat gradient after
 * `backward`.
 */
export interface ReplicaResult {
  tensors: ArrayTensor[];
  memory: PassMemory;
}

export type ToReplica = ReplicaCall & { id: number };
export type FromReplica = { id: number } & ({ result: ReplicaResult } | { error: { name: string; message: string } });

/** The connection to a replica: its worker, or a message port to a replica in the same process. */
export type ReplicaPort = Pick<MessagePort, 'postMessage' | 'addEventListener' | 'removeEventListener'> &
  Partial<Pick<Worker, 'terminate'> & Pick<MessagePort, 'start' | 'close'>>;

const ARRAYS = { float32: Float32Array, int32: Int32Array, bool: Uint8Array } as const;

/** Returns whether messages may contain tensors of this dtype. */
export function canSendDtype(dtype: tf.DataType): boolean {
  return dtype in ARRAYS;
}

/** Reads a tensor. The array is a copy, which may be transferred. */
export async function readTensor(tensor: tf.Tensor): Promise<ArrayTensor> {
  const values = (await tensor.data()).slice();
  return { values, shape: [...tensor.shape] };
}

/** Creates the tensor. The array must not be changed afterwards. */
export function createTensor({ values, shape }: ArrayTensor): tf.Tensor {
  const dtype = values instanceof Float32Array ? 'float32' : values instanceof Int32Array ? 'int32' : 'bool';
  return tf.tensor(values, shape, dtype);
}

/** Splits a tensor along its first dimension. Part i has `sizes[i]` rows. */
export function splitTensorRows({ values, shape }: ArrayTensor, sizes: readonly number[]): ArrayTensor[] {
  const [, ...row] = shape;
  const rowSize = elementCountOf(row);
  let at = 0;
  return sizes.map((size) => {
    const part = values.slice(at * rowSize, (at + size) * rowSize);
    at += size;
    return { values: part, shape: [size, ...row] };
  });
}

export function arrayBuffersOf(tensors: readonly ArrayTensor[]): ArrayBuffer[] {
  return tensors.map(({ values }) => values.buffer);
}
