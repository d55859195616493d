/** Divides the tensors that `fit` was called with into batches. */
import { mixSeed, seededPermutation } from '../../util/rng.ts';
import type { BatchSource } from './batchSource.ts';
import type { RankBatch } from './compiledModel.ts';
import type { SampleWeights } from './sampleWeights.ts';
import { partOfSampleSpan, type SampleSpan, type InputsAndTargets } from './tensorData.ts';

export interface TensorBatchesOptions {
  rank: number;
  worldSize: number;
  /** Number of samples of each rank. It is a single number if all ranks have the same samples. */
  sizes: number | readonly number[];
  /** Number of samples of one rank in a batch. */
  batchSize: number;
  shuffle: boolean;
  /** Seed for the order of the samples. It is the same on all ranks. */
  seed: number;
}

export class TensorBatches implements BatchSource {
  readonly steps: number;
  readonly #data: InputsAndTargets;
  readonly #weights: readonly SampleWeights[];
  readonly #options: TensorBatchesOptions;
  #order: Uint32Array = new Uint32Array();

  /** @param weights see {@link sampleWeightsPerOutput}. */
  constructor(data: InputsAndTargets, weights: readonly SampleWeights[], options: TensorBatchesOptions) {
    const { sizes, batchSize, worldSize } = options;
    this.#data = data;
    this.#weights = weights;
    this.#options = options;
    this.steps =
      typeof sizes === 'number'
        ? Math.ceil(sizes / (batchSize * worldSize))
        : Math.ceil(Math.max(...sizes) / batchSize);
  }

  /** Number of samples of all ranks in an epoch. */
  get samples(): number {
    const { sizes } = this.#options;
    return typeof sizes === 'number' ? sizes : sizes.reduce((sum, size) => sum + size, 0);
  }

  begin(epoch: number): Promise<void> {
    const { sizes, rank, shuffle, seed } = this.#options;
    const isSharded = typeof sizes !== 'number';
    const size = isSharded ? sizes[rank]! : sizes;
    this.#order = shuffle
      ? seededPermutation(size, isSharded ? mixSeed(seed, epoch, rank) : mixSeed(seed, epoch))
      : Uint32Array.from({ length: size }, (_, i) => i);
    return Promise.resolve();
  }

  next(index: number): Promise<RankBatch | null> {
    const { start, end } = this.#spanOf(index, this.#options.rank);
    if (end <= start) return Promise.resolve(null);
    return Promise.resolve(this.#data.gather(Int32Array.from(this.#order.subarray(start, end)), this.#weights));
  }

  sizeOf(index: number): number {
    const { sizes, worldSize } = this.#options;
    const spans =
      typeof sizes === 'number'
        ? [this.#globalSpan(index, sizes)]
        : Array.from({ length: worldSize }, (_, rank) => this.#spanOf(index, rank));
    return spans.reduce((sum, { start, end }) => sum + end - start, 0);
  }

  /** Returns a rank's part of a batch, as positions in the rank's order of samples. */
  #spanOf(index: number, rank: number): SampleSpan {
    const { sizes, batchSize, worldSize } = this.#options;
    if (typeof sizes === 'number') return partOfSampleSpan(this.#globalSpan(index, sizes), rank, worldSize);
    const size = sizes[rank]!;
    return { start: Math.min(index * batchSize, size), end: Math.min((index + 1) * batchSize, size) };
  }

  #globalSpan(index: number, size: number): SampleSpan {
    const global = this.#options.batchSize * this.#options.worldSize;
    return { start: Math.min(index * global, size), end: Math.min((index + 1) * global, size) };
  }
}
