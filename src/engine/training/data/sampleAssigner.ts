/** Interfaces for a rank's part of the next step, and for assigning it. */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import type { DataCursorPosition } from '../../../parallel/data/cursor.ts';
import type { RetainedGradient } from '../../../parallel/recovery/sampleReassignment.ts';
import type { ElasticStrategy } from '../../../parallel/strategies/index.ts';

export interface StepAssignment {
  /**
   * The part of the epoch that all ranks compute together in this step: its offset in the epoch,
   * its number of samples, and the position where the next step begins.
   */
  window: { epoch: number; offset: number; size: number; next: DataCursorPosition };
  /**
   * The samples of this rank. Samples whose gradient the rank retains come first, followed by
   * samples that it has to compute.
   */
  indices: Uint32Array;
  /** For each pass, in order: the largest number of its samples. There is at least one pass. */
  passes: readonly number[];
}

/** The gradients that a rank retains of a step that was not applied. */
export type RetainedGradientStore = Pick<ElasticStrategy, 'heldSamples' | 'drop'>;

export interface SampleAssignerOptions {
  /** The group of the run's first world. */
  group: ProcessGroup;
  /** The number of training samples on each rank. */
  samples: readonly number[];
  seed: number;
  /** The largest number of samples of one rank in a step. */
  batchSize: number;
}

/** Assigns each step of a run to the ranks of the current world. */
export interface SampleAssigner {
  /** Enters a world. @param samples the number of training samples on each rank. */
  enter(group: ProcessGroup, samples: readonly number[]): void;
  /**
   * Assigns a step that no rank has started.
   *
   * @param shares the ranks' shares (see `workShares.ts`); `null` if they are equal.
   */
  assign(position: DataCursorPosition, shares: readonly number[] | null): StepAssignment;
  /**
   * Returns the samples that this rank will probably compute in the steps from `position` on, in
   * their order, at most `most`. If ranks join or leave or shares change, this rank computes other
   * samples.
   */
  upcoming(position: DataCursorPosition, shares: readonly number[] | null, most: number): number[];
  /**
   * Returns the gradient that this rank retains of the latest assigned step. Returns `null` if that
   * step was applied or no gradient is retained.
   */
  retainedGradient(gradient: RetainedGradientStore): RetainedGradient | null;
  /**
   * Divides the samples of the step at `position` among the ranks again. `retainedGradients[r]` is
   * the gradient of this step that rank r still has, or `null`. If the step cannot use this rank's
   * retained gradient, the gradient is dropped.
   */
  reassign(
    position: DataCursorPosition,
    gradient: RetainedGradientStore,
    retainedGradients: readonly (RetainedGradient | null)[],
  ): StepAssignment;
  /** The number of samples of all ranks together in a step that does not end an epoch. */
  readonly stepSamples: number;
  /** Returns the number of steps from `position` to the end of the given number of epochs. */
  stepsLeft(position: DataCursorPosition, epochs: number): number;
}

/** Returns the samples of the windows from `position` on, at most `most`. */
export function upcomingSamples(
  position: DataCursorPosition,
  most: number,
  windowAt: (position: DataCursorPosition) => { indices: Uint32Array; next: DataCursorPosition },
): number[] {
  const samples: number[] = [];
  // A window of a small data set may have no samples of this rank.
  for (let at = position, windows = 0; samples.length < most && windows < most; windows++) {
    const { indices, next } = windowAt(at);
    samples.push(...indices.subarray(0, most - samples.length));
    at = next;
  }
  return samples;
}
