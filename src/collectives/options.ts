/** What the calls of a process group may be told. Names are torch.distributed's, in camelCase. */
import type { ReduceOp } from '../protocol/frame.ts';
import type { Clock } from '../util/clock.ts';
import type { CodecName } from './codecs.ts';
import type { TypedArray } from './dtypes.ts';

export interface ProcessGroupOptions {
  /** Which of its browser's tabs in the world the rank is, and of how many; default 0 of 1. */
  localRank?: number;
  localWorldSize?: number;
  timeoutMs?: number;
  /** Most elements in a frame's payload; smaller than the default only to test. */
  segmentElements?: number;
  clock?: Clock;
}

export interface OpOptions {
  timeoutMs?: number | undefined;
  /** That a Uint16Array holds IEEE half floats. */
  dtype?: 'float16' | undefined;
}

export type TimeoutOption = Pick<OpOptions, 'timeoutMs'>;

export interface ReduceOptions extends OpOptions {
  /** SUM by default. */
  op?: ReduceOp;
  /** With PREMUL_SUM: what this rank's values are multiplied by first. */
  factor?: number;
}

export interface AllReduceOptions extends ReduceOptions {
  /** Gradient bucket this belongs to, the same on every rank. 0 .. 65 535, 0 by default. */
  bucket?: number;
  /**
   * How float32 values travel where the ring is what carries them, the same on every rank; `fp32`
   * by default. What other algorithms carry is too small, or the world too large, for it to pay:
   * that goes as it is.
   */
  codec?: CodecName;
  /**
   * As long as the tensor: takes what this rank's rounding took away from the sum, zeros where
   * nothing was encoded. Added to the next tensor, it is not residual (error feedback): over all
   * ranks, tensors before less the sum (of AVG, less worldSize averages) are what `residual` adds
   * up to. 0 where that is not finite. Undefined where the op fails.
   */
  residual?: Float32Array | null;
}

export interface RootedOptions {
  /**
   * `direct`: between the root and each rank, as a parameter server does. By default what is
   * fastest.
   */
  algorithm?: 'direct';
}

export interface SizesOptions extends OpOptions {
  /**
   * Elements of each rank's part, the same list on every rank; by default all are as large as this
   * rank's.
   */
  sizes?: readonly number[];
}

export interface AllToAllOptions extends OpOptions {
  /** Elements for, and from, each rank; by default equal parts. */
  inputSplits?: readonly number[];
  outputSplits?: readonly number[];
}

export interface MessageOptions extends OpOptions {
  /** Receives take messages of their own tag only. 0 .. 65 535, 0 by default. */
  tag?: number;
}

/** One message of {@link ProcessGroup.batchIsendIrecv}. */
export interface P2POp extends MessageOptions {
  op: 'isend' | 'irecv';
  tensor: TypedArray;
  peer: number;
}
