/**
 * The interface of strategies: how the training of many ranks becomes one model. K is the bytes of
 * the parameters, n the world size; docs/STRATEGIES.md lists the costs of each strategy and when to
 * use it.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { AllReduceTrace } from '../../collectives/work.ts';
import type { Optimizer } from '../../optim/optimizer.ts';
import type { CodecChoice } from '../../protocol/runResult.ts';
import type { Clock } from '../../util/clock.ts';
import type { Model, Variable } from '../backward/flatten.ts';
import type { Pass, PassOptions } from '../backward/pass.ts';
import type { StateReceivedBytes } from '../recovery/gatherSlices.ts';
import type { ElasticStrategy } from './elasticStrategy.ts';

export interface StepReport {
  /** Mean loss of `samples` samples. */
  loss: number;
  samples: number;
  /**
   * For each bucket: the trace of its all-reduce, or `null` in a world of one rank. The list is
   * empty if the strategy has no all-reduce of gradients.
   */
  traces: readonly (AllReduceTrace | null)[];
  /** These times are durations in milliseconds; see `StepTimes`. */
  compute: number;
  readback: number;
  communicate: number;
  exposed: number;
  update: number;
  /** The codec chosen before this step, with the reason; `null` if no codec was chosen. */
  choice?: CodecChoice | null;
}

export interface StepOptions extends PassOptions {
  /**
   * Learning rate of the step; by default the optimizer's. The rate becomes part of the optimizer's
   * state when the step is applied: a change before that would make the states of interrupted ranks
   * differ.
   */
  learningRate?: number;
}

/** Called synchronously when a step is applied, so that all step counters stay equal. */
export type OnStepApplied = (report: Pick<StepReport, 'loss' | 'samples'>) => void;

export interface StrategyOptions {
  /** The model; see {@link DistributedDataParallel.create}. */
  model: Model | readonly Variable[];
  /**
   * Group of one rank, in which the strategy is created and warmed up. Later the strategy is
   * attached to other groups.
   */
  group: ProcessGroup;
  /**
   * Creates the optimizer for a number of parameters. A new optimizer replaces the previous one.
   */
  createOptimizer: (size: number) => Optimizer;
  /** Largest norm of a gradient, see `clipGradNorm`; `null`: no limit. */
  clipNorm: number | null;
  clock: Clock;
  /**
   * Called after a step's gradients are read from the GPU, and before these are used. It must throw
   * if the gradients are invalid, for example after a GPU error.
   */
  checkGradients: () => void;
  /** Called with a message for the user, for example if a part of the state was lost. */
  onnote: (message: string) => void;
  /** Called on all ranks while some receive the state of others, about twice a second. */
  onreceived?: (received: StateReceivedBytes) => void;
}

export interface GradientAccumulator {
  /**
   * Adds the gradients of a micro-batch to the next {@link Strategy.step}. Use it if this rank's
   * samples do not fit in one micro-batch.
   */
  accumulate(pass: Pass, options: PassOptions): Promise<void>;
}

export interface Strategy {
  /**
   * The strategy itself if it can continue in another group (see `ElasticStrategy`); `null` if a
   * part of the state is lost when a rank leaves.
   */
  readonly elastic: ElasticStrategy | null;
  /** Collects a step's gradients over several passes; `null`: a step has one pass. */
  readonly accumulator: GradientAccumulator | null;
  /** Number of parameters. */
  readonly size: number;
  /** Number of bytes of one exchange: in total, and of each bucket. */
  readonly gradientBytes: number;
  readonly bucketBytes: readonly number[];
  /** Whether a step's loss and samples are those of all ranks; otherwise they are this rank's. */
  readonly reportsAllRanks: boolean;
  /** Whether all ranks have equal parameters now. The answer is the same on all ranks. */
  readonly isSynchronized: boolean;
  /**
   * One optimizer step on this rank's samples. Every rank must take the same number of steps.
   *
   * @param pass see {@link DistributedDataParallel.backward}.
   */
  step(pass: Pass, options: StepOptions, onapplied: OnStepApplied): Promise<StepReport>;
  /** Runs a step's GPU work without learning. */
  warmUp(pass: Pass, options: PassOptions): Promise<void>;
  /** Makes all ranks' parameters equal. Every rank must call it after the same step. */
  synchronize(): Promise<void>;
  /** State that is equal on all ranks while they are synchronized. */
  state(): readonly ArrayBufferView[];
  dispose(): void;
}
