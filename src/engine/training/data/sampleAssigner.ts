/** A rank's part of the next step, and how it is assigned. */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import type { CursorPosition } from '../../../parallel/data/cursor.ts';
import type { RetainedGradient } from '../../../parallel/recovery/sampleReassignment.ts';
import type { ElasticStrategy } from '../../../parallel/strategies/index.ts';

export interface StepAssignment {
  /**
   * The part of all ranks together: its offset in the epoch, its number of samples, and where the
   * next step begins.
   */
  window: { epoch: number; offset: number; size: number; next: CursorPosition };
  /**
   * Samples of this rank: first those whose gradient it retains, then those that it has to compute.
   */
  indices: Uint32Array;
  /** Micro-batches, at least one; the same number on all ranks. */
  microBatches: number;
}

/** Gradients that a rank retains of a step that was not applied. */
export type GradientStore = Pick<ElasticStrategy, 'heldSamples' | 'drop'>;

export interface SampleAssignerOptions {
  /** The run's first world. */
  group: ProcessGroup;
  /** Training samples by rank. */
  samples: readonly number[];
  seed: number;
  /** Most samples of a rank in a step. */
  batchSize: number;
}

/** Assigns each step of a run to the ranks of the present world. */
export interface SampleAssigner {
  /** Enters another world. @param samples training samples by rank. */
  enter(group: ProcessGroup, samples: readonly number[]): void;
  /** Assigns a step that no rank has begun. */
  assign(position: CursorPosition): StepAssignment;
  /** This rank's retained gradient of the last assigned step, if that was not applied. */
  retainedGradient(gradient: GradientStore): RetainedGradient | null;
  /**
   * Reassigns a step of which ranks retain parts, given by rank. A part of this rank that is not
   * used is dropped.
   */
  reassign(
    position: CursorPosition,
    gradient: GradientStore,
    retainedGradients: readonly (RetainedGradient | null)[],
  ): StepAssignment;
  /** Samples of a step of all ranks together, if the epoch does not end in it. */
  readonly stepSamples: number;
  /** Steps from `position` to the end of so many epochs. */
  stepsLeft(position: CursorPosition, epochs: number): number;
}
