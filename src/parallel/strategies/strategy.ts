/**
 * How the learning of many ranks becomes one model: one interface, a class for each way. K is the
 * bytes of the parameters, n the world size; docs/STRATEGIES.md says what each costs and when to
 * choose it.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { OpTrace } from '../../collectives/work.ts';
import type { Optimizer } from '../../optim/optimizer.ts';
import type { BucketChoice, CodecChoice } from '../../protocol/runResult.ts';
import type { Clock } from '../../util/clock.ts';
import type { Model, Variable } from '../ddp/flatten.ts';
import type { Pass, PassOptions } from '../ddp/pass.ts';

export interface StepReport {
  /** Mean over `samples`. */
  loss: number;
  samples: number;
  /**
   * How each bucket went round the ring, by bucket; `null` where it took another way, nothing where
   * there is no ring.
   */
  traces: readonly (OpTrace | null)[];
  /** Milliseconds, see `StepTimes`. */
  compute: number;
  readback: number;
  communicate: number;
  exposed: number;
  update: number;
  /**
   * The codec that ranks have agreed on before this step, and why; where they have not, nothing.
   */
  choice?: CodecChoice | null;
  /** The same of how much a bucket holds. */
  bucketChoice?: BucketChoice | null;
}

/**
 * Called in the moment a step is applied, and not a turn of the event loop later: what counts steps
 * must not differ.
 */
export type Applied = (report: Pick<StepReport, 'loss' | 'samples'>) => void;

export interface StrategyOptions {
  /** What is trained: see {@link DistributedDataParallel.create}. */
  model: Model | readonly Variable[];
  /** Where it is made and warmed up, of one rank; to learn with others it is attached to theirs. */
  group: ProcessGroup;
  /** Makes the optimizer, for that many parameters. */
  createOptimizer: (size: number) => Optimizer;
  clock: Clock;
  /**
   * Called when a step's gradients are read and before they are used; throws if they are void, as
   * after a GPU error.
   */
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
  /**
   * Whether all ranks hold the same parameters now. Steps, and so this, are the same on all ranks.
   */
  readonly isSynchronized: boolean;
  /**
   * One optimizer step on this rank's samples. Every rank must take as many steps.
   *
   * @param pass see {@link DistributedDataParallel.backward}.
   */
  step(pass: Pass, options: PassOptions, onapplied: Applied): Promise<StepReport>;
  /** Runs what a step runs on the GPU, and learns nothing. */
  warmUp(pass: Pass, options: PassOptions): Promise<void>;
  /**
   * Gives all ranks the same parameters, if they are not. Every rank must call it after the same
   * step.
   */
  synchronize(): Promise<void>;
  /** What must be equal on all ranks while they are synchronized. */
  state(): readonly ArrayBufferView[];
  dispose(): void;
}
