/** `DistributedSampler` with PyTorch's semantics, for training loops of one's own. */
import { permutation } from '../../util/rng.ts';
import { checkCount, checkRank } from '../checks.ts';

export interface DistributedSamplerOptions {
  /** Number of ranks that share the data. */
  numReplicas: number;
  /** This rank, 0 .. numReplicas-1. */
  rank: number;
  /** A new order every epoch (see `setEpoch`) instead of 0, 1, 2, ... Default true. */
  shuffle?: boolean;
  /** The same on all ranks. Default 0. */
  seed?: number;
  /**
   * Leave out the tail that does not divide evenly, instead of repeating samples from the head.
   * Default false.
   */
  dropLast?: boolean;
}

/**
 * The indices of one rank's share of a dataset, as torch.utils.data.DistributedSampler deals them:
 * the (shuffled) list, padded from its own head to a multiple of the ranks or cut to one, then
 * every `numReplicas`-th from `rank` on. Every rank gets equally many. Iterating again gives the
 * same indices until `setEpoch`.
 *
 * The order is `permutation(size, seed + epoch)` of util/rng, not torch's Mersenne twister.
 *
 * Source: https://github.com/pytorch/pytorch/blob/main/torch/utils/data/distributed.py
 */
export class DistributedSampler implements Iterable<number> {
  /** Indices per rank. */
  readonly length: number;
  readonly #size: number;
  readonly #numReplicas: number;
  readonly #rank: number;
  readonly #shuffle: boolean;
  readonly #seed: number;
  #epoch = 0;

  /** @throws UsageError if `rank` is not in 0 .. numReplicas-1, or a count is not one. */
  constructor(datasetSize: number, options: DistributedSamplerOptions) {
    const { numReplicas, rank, shuffle = true, seed = 0, dropLast = false } = options;
    checkCount('datasetSize', datasetSize, 0);
    checkRank(rank, numReplicas);
    this.#size = datasetSize;
    this.#numReplicas = numReplicas;
    this.#rank = rank;
    this.#shuffle = shuffle;
    this.#seed = seed;
    this.length = dropLast ? Math.floor(datasetSize / numReplicas) : Math.ceil(datasetSize / numReplicas);
  }

  /** Chooses the order of this pass over the data; call it on all ranks before each. */
  setEpoch(epoch: number): void {
    this.#epoch = epoch;
  }

  /** All of this rank's indices at once. */
  indices(): Uint32Array {
    const order = this.#shuffle ? permutation(this.#size, this.#seed + this.#epoch) : null;
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
