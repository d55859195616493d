/** `ElasticSampler`: the samples of an epoch that are left, for ranks that join and leave. */
import { seededPermutation } from '../../util/rng.ts';
import { checkWholeAtLeast, checkRank } from '../groups/checks.ts';
import { equalPartOfWindow } from './cursor.ts';

export interface ElasticSamplerOptions {
  /**
   * Whether every epoch has a new random order (see `setEpoch`). Otherwise the order is 0, 1, 2,
   * ... Default true.
   */
  shuffle?: boolean;
  /** Seed of the order. It must be the same on all ranks. Default 0. */
  seed?: number;
}

/**
 * The samples of an epoch that are done. They are the first samples in the epoch's order, so their
 * number is enough.
 */
export interface ElasticSamplerState {
  epoch: number;
  /** Number of samples of this epoch that all ranks together have done. */
  processed: number;
}

/**
 * The indices of one rank's share of the samples that are left in an epoch, like
 * horovod.torch.elastic.ElasticSampler. `elastic` divides these samples again whenever ranks have
 * joined or left, so every sample of an epoch is used once: no index is repeated to make shares
 * equal, unlike in Horovod and in {@link DistributedSampler}.
 *
 * Call {@link recordBatch} after each batch, then commit; see `elastic`.
 *
 * All ranks have equally many batches. If the remaining samples cannot be divided equally, the last
 * batch of some ranks has one index less, and may be empty.
 *
 * Until `elastic` calls {@link reset}, the sampler has the samples of a world of one rank.
 */
export class ElasticSampler implements Iterable<number> {
  readonly #size: number;
  readonly #shuffle: boolean;
  readonly #seed: number;
  #rank = 0;
  #worldSize = 1;
  #epoch = 0;
  #processed = 0;

  /** @throws UsageError if `datasetSize` is negative or not a whole number. */
  constructor(datasetSize: number, { shuffle = true, seed = 0 }: ElasticSamplerOptions = {}) {
    checkWholeAtLeast('datasetSize', datasetSize, 0);
    this.#size = datasetSize;
    this.#shuffle = shuffle;
    this.#seed = seed;
  }

  /**
   * Sets the epoch, which determines the order. Call it on all ranks before each epoch. With the
   * current epoch it changes nothing. So a function that `elastic` calls again continues within the
   * epoch.
   */
  setEpoch(epoch: number): void {
    if (epoch !== this.#epoch) this.load({ epoch, processed: 0 });
  }

  /**
   * Records that every rank has used one more batch of {@link indices}.
   *
   * @param batchSize number of samples of a full batch on each rank; the same on all ranks.
   */
  recordBatch(batchSize: number): void {
    checkWholeAtLeast('batchSize', batchSize, 1);
    this.#processed = Math.min(this.#size, this.#processed + batchSize * this.#worldSize);
  }

  /** The number of remaining indices of the rank that has the most. This rank may have one less. */
  get length(): number {
    return Math.ceil((this.#size - this.#processed) / this.#worldSize);
  }

  /** Returns this rank's share of the samples that are not recorded yet. */
  indices(): Uint32Array {
    const order = this.#shuffle
      ? seededPermutation(this.#size, this.#seed + this.#epoch)
      : Uint32Array.from({ length: this.#size }, (_, i) => i);
    return equalPartOfWindow(order.subarray(this.#processed), this.#rank, this.#worldSize);
  }

  [Symbol.iterator](): Iterator<number> {
    return this.indices().values();
  }

  /** Divides the remaining samples among the ranks of another group. `elastic` calls it. */
  reset({ rank, worldSize }: { rank: number; worldSize: number }): void {
    checkRank(rank, worldSize);
    this.#rank = rank;
    this.#worldSize = worldSize;
  }

  /** The position in the data, equal on all ranks (torch and Horovod: `state_dict`). */
  state(): ElasticSamplerState {
    return { epoch: this.#epoch, processed: this.#processed };
  }

  /** Continues from a position (torch and Horovod: `load_state_dict`). */
  load({ epoch, processed }: ElasticSamplerState): void {
    checkWholeAtLeast('epoch', epoch, 0);
    checkWholeAtLeast('processed', processed, 0);
    this.#epoch = epoch;
    this.#processed = Math.min(processed, this.#size);
  }
}
