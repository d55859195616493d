/**
 * A rank's part in the steps of a run, and the state that it keeps between steps. There are two
 * kinds of ranks: a `ReplicaStep` has the whole model, a `StageStep` has some of its layers. The
 * `TrainingLoop` is the same for both. Every rank must call the methods that return a promise.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { DataCursorPosition } from '../../parallel/data/cursor.ts';
import type { PipelinePlan } from '../../parallel/pipeline/schedules.ts';
import type { StepReport, Strategy } from '../../parallel/strategies/strategy.ts';
import type { RunResult } from '../../protocol/runResult.ts';
import type { JobCodecName } from '../../spec/codecs.ts';
import type { PipelineStepTimes } from '../../telemetry/stepLane.ts';
import type { HeldOutTask } from '../tasks/evaluation.ts';
import type { EnteringRankFacts, RunProgress, ScheduledSamples } from './runProgress.ts';
import type { RunStats } from './telemetry/runStats.ts';

/** The next step, before it is taken. */
export interface PlannedStep {
  epoch: number;
  offset: number;
  /** The number of samples for which the step reports a loss. */
  samples: number;
  /** The position at which the following step begins. */
  end: DataCursorPosition;
  /**
   * Takes the step.
   *
   * @param applied called synchronously when the step is applied, with a mean loss and the number
   *   of its samples.
   */
  take(learningRate: number, applied: (loss: number, samples: number) => void): Promise<RankStepOutcome>;
}

export interface RankStepOutcome {
  report: StepReport;
  /** Milliseconds until the samples of the step were read. */
  data: number;
  /** In a pipeline: the times of this rank's passes. */
  pipeline?: PipelineStepTimes;
  /** Called after the step was reported. */
  after?: () => Promise<void>;
}

export interface RankStep {
  /** Overwritten with the progress of the state on which ranks agree. */
  readonly progress: RunProgress;
  readonly figures: RunStats;
  /** How ranks exchange gradients. */
  readonly strategy: Pick<Strategy, 'size' | 'gradientBytes' | 'bucketBytes' | 'reportsAllRanks' | 'isSynchronized'> & {
    readonly elastic: { readonly codec: JobCodecName } | null;
  };
  /** Known once ranks have agreed. */
  readonly samples: ScheduledSamples;
  readonly heldOut: HeldOutTask;
  /** In a pipeline: the passes of each rank in a step. */
  readonly passes: PipelinePlan['passes'] | null;

  /**
   * Enters a world: agrees with its ranks on the data, the model and one state.
   *
   * @returns a description of each rank before the agreement.
   */
  agree(group: ProcessGroup): Promise<readonly EnteringRankFacts[]>;
  /**
   * Receives what this rank needs for the steps in this world.
   *
   * @returns the hash of the state; `null` if the model is too large for the ranks of this world.
   */
  receive(group: ProcessGroup): Promise<string | null>;
  /** Called at the end of entering a world. */
  entered(group: ProcessGroup): Promise<void>;
  /** Called before the first step in a world. */
  begin?(group: ProcessGroup): void;
  /** Returns the next step. The same step is returned until it is applied. */
  next(group: ProcessGroup): Promise<PlannedStep>;
  /**
   * Ends training after the last step: makes the ranks' parameters equal. In a comparison of
   * methods, also measures links and compares the methods.
   */
  complete?(group: ProcessGroup): Promise<void>;
  /**
   * Compares the states of all ranks.
   *
   * @param exchange sends and receives hashes of the state.
   */
  compare(group: ProcessGroup, exchange: (stateHash: string) => Promise<void>): Promise<void>;
  /** Returns the fields of the result that only this kind of rank has. */
  outcome(
    group: ProcessGroup,
  ): Promise<Pick<RunResult, 'shares' | 'pipeline' | 'rateTest' | 'methods' | 'bigramLoss' | 'samples'>>;
  dispose(): void;
}
