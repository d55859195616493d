/** A rank's part of the next step, and who deals it out. */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import type { CursorPosition } from '../../../parallel/data/cursor.ts';
import type { RetainedGradient } from '../../../parallel/recovery/sampleReassignment.ts';
import type { ElasticStrategy } from '../../../parallel/strategies/index.ts';

export interface StepAssignment {
  /**
   * All ranks' part: where it lies in the pass, how many samples it has, and where the next step
   * begins.
   */
  window: { epoch: number; offset: number; size: number; next: CursorPosition };
  /** Samples of this rank: first those whose gradients it holds, then what it is to compute. */
  indices: Uint32Array;
  /** Micro-batches, at least one, the same number on all ranks. */
  microBatches: number;
}

/** What a rank holds of a step that was not applied. */
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

/** Deals out a run's steps in one world after the other, to every rank its own part. */
export interface SampleAssigner {
  /** Another world. @param samples by rank. */
  enter(group: ProcessGroup, samples: readonly number[]): void;
  /** Assigns a step that no rank has begun. */
  assign(position: CursorPosition): StepAssignment;
  /** What this rank has of the last step that was dealt, where it was not applied. */
  retainedGradient(held: GradientStore): RetainedGradient | null;
  /**
   * Deals out a step of which ranks may hold parts, by rank. What this one holds in vain is
   * dropped.
   */
  reassign(
    position: CursorPosition,
    held: GradientStore,
    retainedGradients: readonly (RetainedGradient | null)[],
  ): StepAssignment;
  /** Samples of a step, of all ranks together, where the pass does not end in it. */
  readonly stepSamples: number;
  /** Steps from `position` to the end of so many passes. */
  stepsLeft(position: CursorPosition, epochs: number): number;
}
