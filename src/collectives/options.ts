/** Options of a process group's calls. Names are torch.distributed's, in camelCase. */
import type { ReduceOp } from '../protocol/frame.ts';
import type { Clock } from '../util/clock.ts';
import type { CodecName } from './codecs.ts';
import type { TypedArray } from './dtypes.ts';

export interface ProcessGroupOptions {
  /** Number of this tab among those of its browser, and their count; default 0 of 1. */
  localRank?: number;
  localWorldSize?: number;
  timeoutMs?: number;
  /** Most elements in a frame's payload; smaller than the default only in tests. */
  segmentElements?: number;
  clock?: Clock;
}

export interface OpOptions {
  timeoutMs?: number | undefined;
  /** Marks a Uint16Array as IEEE half floats. */
  dtype?: 'float16' | undefined;
}

export type TimeoutOption = Pick<OpOptions, 'timeoutMs'>;

export interface ReduceOptions extends OpOptions {
  /** SUM by default. */
  op?: ReduceOp;
  /** Factor of this rank's values with PREMUL_SUM. */
  factor?: number;
}

export interface AllReduceOptions extends ReduceOptions {
  /** Gradient bucket this belongs to, the same on every rank. 0 .. 65 535, 0 by default. */
  bucket?: number;
  /**
   * Encoding of float32 values on the ring, the same on every rank; `fp32` by default. Small
   * tensors and large worlds, for which encoding does not pay, use other algorithms, which do not
   * encode.
   */
  codec?: CodecName;
  /**
   * An array of the tensor's length that receives what this rank's rounding removed from the sum;
   * zeros if nothing was encoded. Add it to the next tensor to send it later (error feedback). The
   * sum of all ranks' residuals is the sum of their tensors minus the result (for AVG, minus
   * worldSize times the result). Values that are not finite have residual 0. Undefined if the op
   * fails.
   */
  residual?: Float32Array | null;
}

export interface RootedOptions {
  /**
   * `direct`: between the root and each rank, as a parameter server does. By default the fastest
   * algorithm.
   */
  algorithm?: 'direct';
}

export interface SizesOptions extends OpOptions {
  /**
   * Elements of each rank's part, the same list on every rank; by default all parts have the size
   * of this rank's.
   */
  sizes?: readonly number[];
}

export interface AllToAllOptions extends OpOptions {
  /** Elements sent to, and received from, each rank; by default equal parts. */
  inputSplits?: readonly number[];
  outputSplits?: readonly number[];
}

export interface MessageOptions extends OpOptions {
  /** A receive only matches messages with its tag. 0 .. 65 535, 0 by default. */
  tag?: number;
}

/** One message of {@link ProcessGroup.batchIsendIrecv}. */
export interface P2POp extends MessageOptions {
  op: 'isend' | 'irecv';
  tensor: TypedArray;
  peer: number;
}
