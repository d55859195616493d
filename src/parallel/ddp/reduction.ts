/** The options, arguments and results of the reducer. */
import type { CollectiveCodecName } from '../../spec/codecs.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { AllReduceTrace } from '../../collectives/work.ts';
import type { AlgorithmName } from '../../spec/algorithms.ts';
import type { Clock } from '../../util/clock.ts';
import type { ComputedGradients } from '../backward/flatten.ts';

export interface ReducerOptions {
  group: ProcessGroup;
  clock: Clock;
  /** Shape of each parameter, in forward order. */
  shapes: readonly (readonly number[])[];
  /** Whether ranks exchange which parameters they used. */
  tracksUsage: boolean;
  /** Number of flags that ranks sum with the gradient. */
  flags: number;
  /** Number of metrics that ranks sum with the gradient. */
  metrics: number;
  checkGradients: () => void;
  /**
   * Whether this rank keeps its gradients if a reduction fails because the group fails. They are
   * then kept as if `Reducer.accumulate` had been called. This needs one more array of the
   * gradient's size.
   */
  keepsLocal: boolean;
  /** Algorithm of the buckets' all-reduces; `null`: the group's. */
  algorithm: AlgorithmName | null;
  /**
   * Initial codec of the buckets. With a codec, the tally (see `Tally`) is sent in a separate
   * message in fp32.
   */
  codec: CollectiveCodecName;
  /** Whether the codec's residual of one step is added to the gradient of the next step. */
  errorFeedback: boolean;
}

/** Result of a reduction. Its times are durations in milliseconds; see `StepTimes`. */
export interface ReducedPass {
  /** The loss, averaged as the gradient is. */
  loss: number;
  /** The metrics of the pass, averaged as the loss is; empty inside `noSync`. */
  metrics: number[];
  /** Number of samples of all ranks. */
  samples: number;
  /** Number of bytes of the frames that this rank sent during the reduction. */
  bytesSent: number;
  /**
   * Trace of the all-reduce of each bucket; `null` in a world of one rank. The list is empty if a
   * hook reduced the buckets.
   */
  traces: (AllReduceTrace | null)[];
  compute: number;
  readback: number;
  communicate: number;
  exposed: number;
}

/**
 * A reduction as the reducer returns it. The reducer does not know when the pass started, so
 * `compute` and `bytesSent`, which count from that start, are missing.
 */
export type UntimedReducedPass = Omit<ReducedPass, 'compute' | 'bytesSent'> & {
  /**
   * Time at which the gradients of the first bucket were read from the GPU, in milliseconds of the
   * clock. `compute` is counted until then.
   */
  computedAt: number;
};

/** One backward pass of this rank: the gradients of its scaled loss, and its samples. */
export interface LocalPass {
  computed: ComputedGradients;
  samples: number;
  /** See `PassOptions`. */
  oncomputed?: (() => void) | undefined;
}
