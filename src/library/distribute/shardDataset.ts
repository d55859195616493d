/** A rank's share of a `tf.data.Dataset`. */
import * as tf from '@tensorflow/tfjs';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { MismatchError } from '../../util/errors.ts';
import { describeSketchDifference, type SampleSketches } from './agreement.ts';
import type { CompiledModel } from './compiledModel.ts';
import { datasetElementOf, disposeDatasetElement, type DatasetElement } from './datasetBatches.ts';
import { sketchOfTensor } from './sketches.ts';

/**
 * Returns a rank's share of a dataset: of every `worldSize` elements, rank r gets element r. If the
 * elements are batches, ranks get whole batches. Elements are read as they are needed; the tensors
 * of other ranks' elements are disposed of. (tf.data: `dataset.shard`)
 *
 * Every rank reads the whole dataset, so a dataset in random order needs the same seed on every
 * rank.
 *
 * @example
 * ```ts
 * const own = shardDataset(tf.data.array([1, 2, 3, 4]), group);
 * console.log(await own.toArray());
 * ```
 */
export function shardDataset<T extends tf.TensorContainer>(
  dataset: tf.data.Dataset<T>,
  group: Pick<ProcessGroup, 'rank' | 'worldSize'>,
): tf.data.Dataset<T> {
  return new DatasetShard(dataset, group);
}

/**
 * A rank's share of a dataset. `see` receives every element of the whole dataset, before the
 * element is used or disposed of.
 */
export class DatasetShard<T extends tf.TensorContainer> extends tf.data.Dataset<T> {
  override readonly size: number;
  readonly #whole: tf.data.Dataset<T>;
  readonly #rank: number;
  readonly #worldSize: number;
  readonly #see: (element: T, index: number) => void;

  constructor(
    whole: tf.data.Dataset<T>,
    { rank, worldSize }: Pick<ProcessGroup, 'rank' | 'worldSize'>,
    see: (element: T, index: number) => void = () => {},
  ) {
    super();
    this.#see = see;
    this.#whole = whole;
    this.#rank = rank;
    this.#worldSize = worldSize;
    // An infinite size stays infinite, and an unknown size stays `null`, as TensorFlow.js has it.
    this.size = Number.isFinite(whole.size) ? Math.ceil((whole.size - rank) / worldSize) : whole.size;
  }

  override async iterator() {
    let index = 0;
    // The filter of an iterator disposes of elements that it drops.
    return (await this.#whole.iterator()).filter((element) => {
      this.#see(element, index);
      return index++ % this.#worldSize === this.#rank;
    });
  }
}

/**
 * The elements that a rank reads up to the first one that it uses: rank r reads elements 0 to r.
 * Ranks compare them. Later elements are not compared, because a rank does not read ahead.
 */
export class FirstElementsComparison {
  readonly #model: CompiledModel;
  readonly #group: ProcessGroup;
  readonly #call: string;
  #elements: DatasetElement[] = [];
  #isOver = false;

  constructor(model: CompiledModel, group: ProcessGroup, call: string) {
    this.#model = model;
    this.#group = group;
    this.#call = call;
    this.#isOver = group.worldSize === 1;
  }

  /** Keeps copies of an element's tensors, because the tensors themselves are disposed of. */
  readonly see = (value: unknown, index: number): void => {
    if (this.#isOver || index !== this.#elements.length || index > this.#group.rank) return;
    const element = datasetElementOf(this.#model, value);
    if (typeof element === 'string') return;
    const [inputs, targets] = [element.inputs, element.targets].map((all) => all.map((tensor) => tensor.clone()));
    this.#elements.push({ ...element, inputs: inputs!, targets: targets! });
  };

  /** @throws (rejects) MismatchError on every rank if ranks have read different elements. */
  async compare(): Promise<void> {
    if (this.#isOver) return;
    const sketches: SampleSketches[] = [];
    try {
      for (const { inputs, targets } of this.#elements) {
        const [xs, ys] = await Promise.all([inputs, targets].map((all) => Promise.all(all.map(sketchOfTensor))));
        sketches.push({ xs: xs!, ys: ys! });
      }
    } finally {
      this.dispose();
    }
    const all = await this.#group.allGatherObject(sketches);
    for (const [rank, mine] of all.entries()) {
      for (let other = rank + 1; other < all.length; other++) {
        const difference = describeSketchDifference(
          this.#call,
          [named(mine, rank), rank],
          [named(all[other]!, rank), other],
        );
        const { rank: own, worldSize } = this.#group;
        if (difference !== null) throw new MismatchError(difference, { rank: own, worldSize, divergent: [other] });
      }
    }
  }

  /** Frees the copies. */
  dispose(): void {
    this.#isOver = true;
    this.#elements.forEach(disposeDatasetElement);
    this.#elements = [];
  }
}

/** Returns the sketches of an element. The keys are names for errors. */
function named(elements: readonly SampleSketches[], index: number): SampleSketches {
  return Object.fromEntries(
    Object.entries(elements[index] ?? {}).map(([key, each]) => [`${key} of element ${index} of the dataset`, each]),
  );
}
