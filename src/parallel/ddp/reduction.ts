/** One backward pass of a rank, and its average over all ranks. */
import type { OpTrace } from '../../collectives/work.ts';
import type { Gradients } from './flatten.ts';

/** Result of a reduction. Its times are durations in milliseconds; see `StepTimes`. */
export interface Reduction {
  /** The loss, averaged as the gradient is. */
  loss: number;
  /** Number of samples of all ranks. */
  samples: number;
  /** Number of bytes of the frames that this rank sent during the reduction. */
  bytesSent: number;
  /**
   * Trace of the ring all-reduce of each bucket; `null` for a bucket that another algorithm
   * reduced. The list is empty if a hook reduced the buckets.
   */
  traces: (OpTrace | null)[];
  compute: number;
  readback: number;
  communicate: number;
  exposed: number;
}

/**
 * A reduction as the reducer returns it. The reducer does not know when the pass started, so the
 * two fields that are counted from that start are missing.
 */
export type OpenReduction = Omit<Reduction, 'compute' | 'bytesSent'> & {
  /** Time when the first bucket was read, in milliseconds of the clock. */
  computedAt: number;
};

/** One backward pass of this rank: the gradients of its scaled loss, and its samples. */
export interface LocalPass {
  computed: Gradients;
  samples: number;
}
