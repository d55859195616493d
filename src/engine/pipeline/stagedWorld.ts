/** The ranks of a pipeline, and the interface of a run's files, texts and answers to queries. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { RunResult } from '../../protocol/runResult.ts';
import type { PipelineGrid } from './pipelineGrid.ts';
import type { PipelineModelStage } from './pipelineModelStage.ts';

/** The ranks of a generation, and this rank's part of the model. */
export interface StagedWorld {
  group: ProcessGroup;
  grid: PipelineGrid;
  /** `null` on a rank without a stage. */
  stage: PipelineModelStage | null;
}

/** Ranks that train together. */
export interface RunOutputsWorld extends StagedWorld {
  /** Returns the hash of the replica's state. Every rank must call it. */
  stateHash: () => Promise<string>;
}

/** Files, texts and queries of a run, for the training loop. Every rank must call all methods. */
export interface RunOutputs {
  /** Number of queries of this rank that wait for an answer: 0 or 1. */
  readonly waiting: number;
  /**
   * Sets the weights of a new model to those of a file, if at least one rank has a file.
   *
   * @returns whether at least one rank has a file.
   * @throws (rejects) DataError if the file of weights cannot be read.
   */
  initialize(world: StagedWorld): Promise<boolean>;
  /** Called when the ranks of a world begin to train. */
  enter(world: RunOutputsWorld): void;
  /**
   * Called after a step.
   *
   * @param queries number of queries on all ranks. All ranks pass the same number.
   */
  applied(steps: number, loss: number, queries: number): Promise<void>;
  /** Called after the last step. */
  finish(steps: number): Promise<Pick<RunResult, 'bigramLoss' | 'samples'>>;
}
