/** Assigns samples if every rank has samples of its own. */
import type { ProcessGroup } from '../../../collectives/processGroup.ts';
import type { DataCursorPosition } from '../../../parallel/data/cursor.ts';
import { ShardCursor } from '../../../parallel/data/shardCursor.ts';
import {
  upcomingSamples,
  type RetainedGradientStore,
  type SampleAssigner,
  type SampleAssignerOptions,
  type StepAssignment,
} from './sampleAssigner.ts';

export class PartitionedDataAssigner implements SampleAssigner {
  readonly #batchSize: number;
  readonly #seed: number;
  #cursor: ShardCursor;

  constructor({ group, samples, seed, batchSize }: SampleAssignerOptions) {
    this.#batchSize = batchSize;
    this.#seed = seed;
    this.#cursor = this.#cursorOf(group, samples);
  }

  enter(group: ProcessGroup, samples: readonly number[]): void {
    this.#cursor = this.#cursorOf(group, samples);
  }

  assign(position: DataCursorPosition): StepAssignment {
    const { epoch, offset, size, indices, next } = this.#cursor.windowAt(position, this.#batchSize);
    return { window: { epoch, offset, size, next }, indices, passes: [this.#batchSize] };
  }

  upcoming(position: DataCursorPosition, _: null, most: number): number[] {
    return upcomingSamples(position, most, (at) => this.#cursor.windowAt(at, this.#batchSize));
  }

  /**
   * Always returns `null`, because a retained gradient cannot be reused: after ranks leave or join,
   * the step consists of other samples, and a gradient cannot be split by samples.
   */
  retainedGradient(): null {
    return null;
  }

  reassign(position: DataCursorPosition, gradient: RetainedGradientStore): StepAssignment {
    gradient.drop();
    return this.assign(position);
  }

  get stepSamples(): number {
    return Math.ceil(this.#cursor.datasetSize / this.#cursor.partsOf(this.#batchSize));
  }

  stepsLeft(position: DataCursorPosition, epochs: number): number {
    return this.#cursor.stepsLeft(position, epochs, this.#batchSize);
  }

  #cursorOf({ rank }: ProcessGroup, sizes: readonly number[]): ShardCursor {
    return new ShardCursor({ sizes, rank, seed: this.#seed });
  }
}
