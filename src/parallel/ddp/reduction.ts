/** One backward pass of a rank, and its average over all ranks. */
import type { OpTrace } from '../../collectives/work.ts';
import type { Gradients } from './flatten.ts';

/** Result of a reduction; times in milliseconds, see `StepTimes`. */
export interface Reduction {
  /** The loss, averaged as the gradient is. */
  loss: number;
  /** Samples of all ranks. */
  samples: number;
  /** Bytes of frames that this rank sent during the reduction. */
  bytesSent: number;
  /**
   * Trace of each bucket on the ring; `null` if another algorithm carried it. Empty if a hook
   * carried the buckets.
   */
  traces: (OpTrace | null)[];
  compute: number;
  readback: number;
  communicate: number;
  exposed: number;
}

/** A reduction whose start the reducer does not know. */
export type OpenReduction = Omit<Reduction, 'compute' | 'bytesSent'> & {
  /** When the first bucket was read, milliseconds of the clock. */
  computedAt: number;
};

/** One backward pass of this rank: the gradients of its scaled loss, and its samples. */
export interface LocalPass {
  computed: Gradients;
  samples: number;
}
