/** A rank's share of a `tf.data.Dataset`. */
import * as tf from '@tensorflow/tfjs';
import type { ProcessGroup } from '../../collectives/processGroup.ts';

/**
 * Returns a rank's share of a dataset: of every `worldSize` elements, the one at the place of the
 * rank. With a dataset of batches, ranks share batches. Elements are read as they are needed; the
 * tensors of other ranks' elements are disposed of. (tf.data: `dataset.shard`)
 *
 * Every rank reads the whole dataset, so a dataset in random order needs the same seed on every
 * rank.
 */
export function shardDataset<T extends tf.TensorContainer>(
  dataset: tf.data.Dataset<T>,
  group: Pick<ProcessGroup, 'rank' | 'worldSize'>,
): tf.data.Dataset<T> {
  return new DatasetShard(dataset, group);
}

class DatasetShard<T extends tf.TensorContainer> extends tf.data.Dataset<T> {
  override readonly size: number;
  readonly #whole: tf.data.Dataset<T>;
  readonly #rank: number;
  readonly #worldSize: number;

  constructor(whole: tf.data.Dataset<T>, { rank, worldSize }: Pick<ProcessGroup, 'rank' | 'worldSize'>) {
    super();
    this.#whole = whole;
    this.#rank = rank;
    this.#worldSize = worldSize;
    // Infinity stays Infinity, and TensorFlow.js's null for an unknown size stays null.
    this.size = Number.isFinite(whole.size) ? Math.ceil((whole.size - rank) / worldSize) : whole.size;
  }

  override async iterator() {
    let index = 0;
    // The filter of an iterator disposes of elements that it drops.
    return (await this.#whole.iterator()).filter(() => index++ % this.#worldSize === this.#rank);
  }
}
