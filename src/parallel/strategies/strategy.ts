/**
 * How the learning of many ranks becomes one model: one interface, a class for each way. K is the bytes of the parameters, n the
 * world size; docs/STRATEGIES.md says what each costs and when to choose it.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { OpTrace } from '../../collectives/work.ts';
import type { Clock } from '../../util/clock.ts';
import type { Scalar, Variable } from '../flatten.ts';

export interface StepReport {
  /** Mean over `samples`. */
  loss: number;
  samples: number;
  /** Bytes of frames this rank sent. */
  bytesSent: number;
  /** How each bucket went round the ring, where there is one. */
  traces: readonly OpTrace[];
  /** Milliseconds, see `StepTimes`. */
  compute: number;
  readback: number;
  communicate: number;
  exposed: number;
  update: number;
}

export interface StepOptions {
  /** Samples that this rank's loss covers; 0 is fine. */
  samples: number;
  /** Whether the loss function gives the mean over those samples (default) or their sum. */
  reduction?: 'mean' | 'sum';
}

/** An optimizer on flat parameters, the same bits on every machine, whose state can be hashed. */
export interface StatefulUpdateRule {
  apply(params: Float32Array, gradient: Float32Array): void;
  state(): { scalars: Float64Array; slots: readonly Float32Array[] };
}

export interface StrategyOptions {
  /** Trainable variables of one model, float32, in forward order. */
  variables: readonly Variable[];
  group: ProcessGroup;
  /** Makes the optimizer, for that many parameters. */
  createOptimizer: (size: number) => StatefulUpdateRule;
  clock: Clock;
  /** Called when a step's gradients are read and before they are used; throws if they are void, as after a GPU error. */
  checkGradients: () => void;
}

export interface Strategy {
  /** Number of parameters. */
  readonly size: number;
  /** Bytes of what one exchange carries, whole and by bucket. */
  readonly gradientBytes: number;
  readonly bucketBytes: readonly number[];
  /** Whether a step's loss and samples are all ranks'; otherwise they are this rank's. */
  readonly reportsAllRanks: boolean;
  /** Whether all ranks hold the same parameters now. Steps, and so this, are the same on all ranks. */
  readonly isSynchronized: boolean;
  /**
   * One optimizer step on this rank's samples. Every rank must take as many steps.
   *
   * @param loss the forward pass; gives a scalar of this rank's samples. Not run where there are none.
   */
  step(loss: () => Scalar, options: StepOptions): Promise<StepReport>;
  /** Runs what a step runs on the GPU, and learns nothing. */
  warmUp(loss: () => Scalar, options: StepOptions): Promise<void>;
  /** Gives all ranks the same parameters, if they are not. Every rank must call it after the same step. */
  synchronize(): Promise<void>;
  /** What must be equal on all ranks while they are synchronized. */
  state(): readonly ArrayBufferView[];
  dispose(): void;
}
