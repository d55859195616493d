/**
 * Assigns samples if every rank has all samples. Then each rank can compute samples that another
 * rank has not finished.
 */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import {
  equalPartOfWindow,
  GlobalCursor,
  type DataCursorPosition,
  type SampleWindow,
} from '../../../parallel/data/cursor.ts';
import { windowPartOfRank, passSizesFor } from '../../../parallel/data/workShares.ts';
import { assignSamples, type RetainedGradient } from '../../../parallel/recovery/sampleReassignment.ts';
import {
  upcomingSamples,
  type RetainedGradientStore,
  type SampleAssigner,
  type SampleAssignerOptions,
  type StepAssignment,
} from './sampleAssigner.ts';

/** The part of a step that is assigned to this rank. */
interface Assigned {
  window: SampleWindow;
  /** The generation in which this step was first assigned. */
  assignedIn: number;
  /**
   * The positions of this rank's samples in the step's window. Samples whose gradient the rank
   * retains come first.
   */
  positions: Uint32Array;
}

export class ReplicatedDataAssigner implements SampleAssigner {
  readonly #cursor: GlobalCursor;
  readonly #batchSize: number;
  #group: ProcessGroup;
  #last: Assigned | null = null;

  constructor({ group, samples, seed, batchSize }: SampleAssignerOptions) {
    this.#cursor = new GlobalCursor({ datasetSize: samples[group.rank]!, seed });
    this.#batchSize = batchSize;
    this.#group = group;
  }

  enter(group: ProcessGroup): void {
    this.#group = group;
  }

  assign(position: DataCursorPosition, shares: readonly number[] | null): StepAssignment {
    const window = this.#cursor.windowAt(position, this.stepSamples);
    const positions = this.#shareOf(Uint32Array.from(window.indices.keys()), shares);
    return this.#assignmentOf(
      { window, assignedIn: this.#group.generation, positions },
      shares === null ? [this.#batchSize] : passSizesFor(positions.length, this.#batchSize),
    );
  }

  upcoming(position: DataCursorPosition, shares: readonly number[] | null, most: number): number[] {
    return upcomingSamples(position, most, (at) => {
      const { indices, next } = this.#cursor.windowAt(at, this.stepSamples);
      return { indices: this.#shareOf(indices, shares), next };
    });
  }

  /** Returns this rank's elements of a window. */
  #shareOf(all: Uint32Array, shares: readonly number[] | null): Uint32Array {
    const { rank, worldSize } = this.#group;
    if (shares === null) return equalPartOfWindow(all, rank, worldSize);
    const { start, end } = windowPartOfRank(all.length, shares, rank);
    return all.subarray(start, end);
  }

  retainedGradient({ heldSamples }: RetainedGradientStore): RetainedGradient | null {
    if (!this.#last || heldSamples === 0) return null;
    const { window, assignedIn, positions } = this.#last;
    const { epoch, offset, indices } = window;
    return {
      window: { epoch, offset, size: indices.length, assignedIn },
      positions: positions.slice(0, heldSamples),
    };
  }

  reassign(
    position: DataCursorPosition,
    gradient: RetainedGradientStore,
    retainedGradients: readonly (RetainedGradient | null)[],
  ): StepAssignment {
    const { generation, rank } = this.#group;
    const retained = this.retainedGradient(gradient);
    const { epoch, offset, indices } = this.#cursor.windowAt(position, this.stepSamples);
    const { window, retains, positions, microBatches } = assignSamples(
      { epoch, offset, size: indices.length, assignedIn: generation },
      retainedGradients,
      { rank, batchSize: this.#batchSize },
    );
    if (!retains) gradient.drop();
    const own = retains && retained ? Uint32Array.from([...retained.positions, ...positions]) : positions;
    const { assignedIn } = window;
    return this.#assignmentOf(
      { window: this.#cursor.windowAt(window, window.size), assignedIn, positions: own },
      Array.from({ length: microBatches }, () => this.#batchSize),
    );
  }

  stepsLeft(position: DataCursorPosition, epochs: number): number {
    return this.#cursor.stepsLeft(position, epochs, this.stepSamples);
  }

  get stepSamples(): number {
    return this.#batchSize * this.#group.worldSize;
  }

  #assignmentOf(assigned: Assigned, passes: readonly number[]): StepAssignment {
    this.#last = assigned;
    const { epoch, offset, indices, next } = assigned.window;
    return {
      window: { epoch, offset, size: indices.length, next },
      indices: assigned.positions.map((at) => indices[at]!),
      passes,
    };
  }
}
