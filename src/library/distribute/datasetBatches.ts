/** Batches of a `tf.data.Dataset`, whose elements are objects `{ xs, ys }`. */
import * as tf from '@tensorflow/tfjs';
import { UsageError } from '../../util/errors.ts';
import type { BatchDataset, BatchSource, DatasetShare } from './batchSource.ts';
import type { RankBatch, CompiledModel, FitTensors } from './compiledModel.ts';
import { checkLossesPerSample, sampleWeightsPerOutput, type ClassWeights } from './sampleWeights.ts';

export function isDataset(value: unknown): value is BatchDataset {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, 'iterator') === 'function';
}

export interface DatasetBatchesOptions {
  /**
   * Number of batches in an epoch. If it is given, a single iterator yields the batches of all
   * epochs. If it is `null`, each epoch reads the whole dataset with an iterator of its own.
   */
  batchesPerEpoch: number | null;
  classWeight: ClassWeights;
  /** See {@link checkLossesPerSample}. */
  isShared: boolean;
}

export class DatasetBatches implements BatchSource {
  readonly steps: number | null;
  readonly #model: CompiledModel;
  readonly #share: DatasetShare;
  readonly #classWeight: ClassWeights;
  readonly #isShared: boolean;
  /** Whether {@link checkLossesPerSample} has accepted the loss functions. */
  #isChecked = false;
  #iterator: Awaited<ReturnType<BatchDataset['iterator']>> | null = null;

  constructor(
    model: CompiledModel,
    share: DatasetShare,
    { batchesPerEpoch, classWeight, isShared }: DatasetBatchesOptions,
  ) {
    this.#model = model;
    this.#share = share;
    this.#classWeight = classWeight;
    this.#isShared = isShared;
    this.steps = batchesPerEpoch;
  }

  async begin(): Promise<void> {
    if (this.steps === null || !this.#iterator) this.#iterator = await this.#share.dataset.iterator();
  }

  async next(index: number): Promise<RankBatch | null> {
    if (this.steps !== null && index >= this.steps) return null;
    const element = await nextDatasetElement(this.#model, this.#iterator!);
    try {
      await this.#share.compare();
      if (!element) return null;
      const weights = await sampleWeightsPerOutput(this.#model, element.targets, { classWeight: this.#classWeight });
      if (!this.#isChecked) await checkLossesPerSample(this.#model, element, weights, this.#isShared);
      this.#isChecked = true;
      return { ...element, weights: weights.map((values) => values && tf.tensor1d(values)) };
    } catch (error) {
      if (element) disposeDatasetElement(element);
      throw error;
    }
  }

  sizeOf(): null {
    return null;
  }
}

export type DatasetElement = Omit<RankBatch, 'weights'>;

export function disposeDatasetElement({ inputs, targets }: DatasetElement): void {
  tf.dispose([inputs, targets]);
}

/** Returns the next batch of an iterator, or `null` at its end. The caller disposes of it. */
export async function nextDatasetElement(
  model: CompiledModel,
  iterator: { next(): Promise<IteratorResult<unknown>> },
): Promise<DatasetElement | null> {
  const { value, done }: { value?: unknown; done?: boolean } = await iterator.next();
  if (done === true && (value === null || value === undefined)) return null;
  const element = datasetElementOf(model, value);
  if (typeof element !== 'string') return element;
  tf.dispose(value as tf.TensorContainer);
  throw new UsageError(element);
}

/** Returns an element of a dataset as a batch, or a sentence about what the element lacks. */
export function datasetElementOf(model: CompiledModel, value: unknown): DatasetElement | string {
  const inputs = tensorsOf(value, 'xs', model.inputNames);
  const targets = tensorsOf(value, 'ys', model.outputNames);
  if (typeof inputs === 'string') return inputs;
  if (typeof targets === 'string') return targets;
  const samples = inputs[0]!.shape[0];
  const other = [...inputs, ...targets].find(({ shape }) => shape[0] !== samples);
  if (!other) return { inputs, targets, samples };
  return `The tensors of an element of the dataset have ${samples} and ${other.shape[0]} samples. Give all tensors of an element the same number of samples.`;
}

function tensorsOf(element: unknown, key: 'xs' | 'ys', names: readonly string[]): tf.Tensor[] | string {
  const given =
    typeof element === 'object' && element !== null ? (Reflect.get(element, key) as FitTensors | undefined) : undefined;
  if (given === undefined || given === null) {
    return `An element of the dataset has no ${key}. Elements must be objects { xs, ys } of batches of tensors.`;
  }
  const tensors =
    given instanceof tf.Tensor ? [given] : Array.isArray(given) ? given : names.map((name) => given[name]!);
  if (tensors.length === names.length && tensors.every((tensor) => tensor instanceof tf.Tensor)) return tensors;
  return `The ${key} of an element of the dataset must be tensors for ${names.join(', ')}, in an array or by name.`;
}
