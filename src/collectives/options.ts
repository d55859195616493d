/** Options of a process group's calls. The names are those of torch.distributed, in camelCase. */
import type { ReduceOp } from '../protocol/frame.ts';
import type { AlgorithmName } from '../spec/algorithms.ts';
import type { Clock } from '../util/clock.ts';
import type { CollectiveCodecName } from '../spec/codecs.ts';
import type { TypedArray } from './dtypes.ts';

/** The activity of the ranks that an op waits for, as reported in their heartbeats. */
export interface AwaitedRanksActivity {
  /** Whether all of these ranks work. If so, the op waits for another timeout. */
  areWorking: boolean;
  /** Sentences about these ranks for the error message; may be empty. */
  text: string;
}

export interface ProcessGroupOptions {
  /**
   * `localRank`: place of this tab among the ranks of its browser, 0 by default. `localWorldSize`:
   * number of these ranks, 1 by default.
   */
  localRank?: number;
  localWorldSize?: number;
  /** Default of {@link OpOptions.timeoutMs}; 60 s by default. */
  timeoutMs?: number;
  /** Default of {@link AllReduceOptions.algorithm}, like NCCL_ALGO; `auto` by default. */
  algorithm?: AlgorithmName;
  /**
   * Maximum number of elements in a frame's payload. Only tests set it, to a smaller number than
   * the default.
   */
  segmentElements?: number;
  clock?: Clock;
  /**
   * Called before an op fails because of its timeout, with the global ranks that the op waits for.
   * The op fails if this function is missing, rejects or does not settle in time.
   */
  activityOf?: ((ranks: readonly number[]) => Promise<AwaitedRanksActivity>) | undefined;
}

export interface OpOptions {
  /**
   * Maximum time without progress, in milliseconds. There is progress while bytes of this op, or of
   * ops that were called before it, move. The total time of the op is not limited.
   */
  timeoutMs?: number | undefined;
  /**
   * When the signal is aborted, the wait ends and the group fails on every rank with an AbortError
   * that names this rank. If the signal is already aborted, the call rejects and sends nothing.
   */
  signal?: AbortSignal | undefined;
  /** Marks a Uint16Array as IEEE half floats. */
  dtype?: 'float16' | undefined;
  /**
   * Resolves when the tensor has its values, for example when they are read from a GPU. The call
   * determines the op's place in the order of this rank's ops, but the op begins only when the
   * promise resolves. Its deadline includes this wait. If the promise rejects, the op fails.
   */
  after?: PromiseLike<unknown> | undefined;
  /**
   * Shape of the tensor that has the values. Ranks must pass equal shapes. If parts differ in size,
   * the first dimension may differ. A shape of one dimension is the same as no shape. For messages
   * between two ranks, only the number of elements is compared.
   */
  shape?: readonly number[] | undefined;
}

export type WaitOptions = Pick<OpOptions, 'timeoutMs' | 'signal'>;

/** Options of a new group; see {@link ProcessGroupOptions}. */
export type GroupOptions = Pick<ProcessGroupOptions, 'timeoutMs' | 'algorithm'> & Pick<OpOptions, 'signal'>;

export interface ReduceOptions extends OpOptions {
  /** SUM by default. */
  op?: ReduceOp;
  /** Factor for this rank's values; only with PREMUL_SUM. */
  factor?: number;
}

/** Options of a collective that sums. Ranks may send the values encoded. */
export interface EncodedReduceOptions extends ReduceOptions {
  /** Codec for float32 values, the same on every rank; `fp32` by default. */
  codec?: CollectiveCodecName;
  /**
   * An array of the tensor's length that receives this rank's rounding errors, or zeros if nothing
   * was encoded. Add it to the next tensor, so that the errors are corrected later (error
   * feedback). The sum of all ranks' residuals is the sum of their tensors minus the result (for
   * AVG, minus worldSize times the result). Values that are not finite have residual 0. If the op
   * fails, the contents are undefined.
   */
  residual?: Float32Array | null;
}

export interface AllReduceOptions extends EncodedReduceOptions {
  /** Number of the gradient bucket, the same on every rank. 0 .. 65 535, 0 by default. */
  bucket?: number;
  /**
   * The algorithm, the same on every rank. By default it is the group's. With `auto`, small worlds
   * use the ring, and in larger worlds the cost model chooses. `two-level` needs a world size that
   * can be divided into groups, and `doubling` supports no codec.
   */
  algorithm?: AlgorithmName;
}

export interface RootedOptions {
  /**
   * With `direct`, the root exchanges tensors directly with each rank, like a parameter server. By
   * default, small worlds use a chain along the ring, and in larger worlds the cost model chooses
   * the chain or a tree.
   */
  algorithm?: 'direct';
}

export interface SizesOptions extends OpOptions {
  /**
   * Number of elements of each rank's part, the same list on every rank. By default all parts have
   * the size of this rank's part.
   */
  sizes?: readonly number[];
}

export interface ReduceScatterOptions extends EncodedReduceOptions, SizesOptions {}

export interface AllToAllOptions extends OpOptions {
  /**
   * Number of elements to send to each rank, and to receive from each rank. By default all parts
   * are equal.
   */
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
