/** `DistributedSampler` with PyTorch's semantics, for custom training loops. */
import { seededPermutation } from '../../util/rng.ts';
import { checkWholeAtLeast, checkRank } from '../groups/checks.ts';

export interface DistributedSamplerOptions {
  /** Number of ranks that share the data. */
  numReplicas: number;
  /** The number of this rank, 0 .. numReplicas-1. */
  rank: number;
  /**
   * Whether every epoch has a new random order (see `setEpoch`). Otherwise the order is 0, 1, 2,
   * ... Default true.
   */
  shuffle?: boolean;
  /** Seed of the order. It must be the same on all ranks. Default 0. */
  seed?: number;
  /**
   * Whether samples at the end are dropped, so that all ranks have equally many. Otherwise samples
   * from the start of the order are repeated. Default false.
   */
  dropLast?: boolean;
}

/**
 * The indices of one rank's share of a dataset, as torch.utils.data.DistributedSampler computes
 * them. The length of the (shuffled) list is made a multiple of the world size: the list is padded
 * with indices from its start, or cut with `dropLast`. A rank has every `numReplicas`-th index,
 * starting at index `rank`. Every rank has equally many indices. Iterating again yields the same
 * indices until `setEpoch` is called.
 *
 * The order is `permutation(size, seed + epoch)` of util/rng, not torch's Mersenne twister.
 *
 * Source: https://github.com/pytorch/pytorch/blob/main/torch/utils/data/distributed.py
 *
 * @example
 * ```ts
 * const { rank, worldSize } = group;
 * const sampler = new DistributedSampler(1000, { numReplicas: worldSize, rank });
 * sampler.setEpoch(1); // another order
 * const indices = [...sampler];
 * ```
 */
export class DistributedSampler implements Iterable<number> {
  /** Number of indices of each rank. */
  readonly length: number;
  readonly #size: number;
  readonly #numReplicas: number;
  readonly #rank: number;
  readonly #shuffle: boolean;
  readonly #seed: number;
  #epoch = 0;

  /**
   * @throws UsageError if `rank` is not in 0 .. numReplicas-1, or if `datasetSize` is negative or
   *   not a whole number.
   */
  constructor(datasetSize: number, options: DistributedSamplerOptions) {
    const { numReplicas, rank, shuffle = true, seed = 0, dropLast = false } = options;
    checkWholeAtLeast('datasetSize', datasetSize, 0);
    checkRank(rank, numReplicas);
    this.#size = datasetSize;
    this.#numReplicas = numReplicas;
    this.#rank = rank;
    this.#shuffle = shuffle;
    this.#seed = seed;
    this.length = dropLast ? Math.floor(datasetSize / numReplicas) : Math.ceil(datasetSize / numReplicas);
  }

  /** Sets the epoch, which determines the order. Call it on all ranks before each epoch. */
  setEpoch(epoch: number): void {
    this.#epoch = epoch;
  }

  /** Returns all indices of this rank in one array. */
  indices(): Uint32Array {
    const order = this.#shuffle ? seededPermutation(this.#size, this.#seed + this.#epoch) : null;
    const out = new Uint32Array(this.length);
    for (let i = 0; i < out.length; i++) {
      const at = (this.#rank + i * this.#numReplicas) % this.#size;
      out[i] = order === null ? at : order[at]!;
    }
    return out;
  }

  [Symbol.iterator](): Iterator<number> {
    return this.indices().values();
  }
}
