/** Losses and metrics of held-out samples, computed by all ranks together. */
import * as tf from '@tensorflow/tfjs';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { CompiledModel } from './compiledModel.ts';
import { disposeElement, nextElement, type BatchDataset } from './datasetBatches.ts';
import type { PageWaits } from './pageWaits.ts';
import type { Span, TensorData } from './tensorData.ts';

/** Sums of a rank over its samples: the results of TensorFlow.js's test function. */
interface Sums {
  values: number[];
  samples: number;
}

/** Held-out samples of this rank. */
export type HeldOut = () => Promise<Sums>;

/** This rank's samples of tensors. */
export function heldOutTensors(model: CompiledModel, data: TensorData, span: Span, batchSize: number): HeldOut {
  const samples = span.end - span.start;
  return async () => {
    if (samples === 0) return noSums(model);
    model.makeTestFunction();
    const means = tf.tidy(() => tf.stack(model.testLoop(model.testFunction, data.slice(span), batchSize)).toFloat());
    return sumsOf(means, samples);
  };
}

/**
 * This rank's share of a dataset.
 *
 * @param batches largest number of batches; `null`: all.
 */
export function heldOutDataset(
  model: CompiledModel,
  dataset: BatchDataset,
  batches: number | null,
  waits: PageWaits,
): HeldOut {
  return async () => {
    model.makeTestFunction();
    const iterator = await waits.until(dataset.iterator());
    const total = noSums(model);
    const limit = batches ?? Infinity;
    for (let batch = 0; batch < limit; batch++) {
      const element = await waits.until(nextElement(model, iterator), (late) => late && disposeElement(late));
      if (!element) break;
      const { inputs, targets, samples } = element;
      try {
        const means = tf.tidy(() => tf.stack(model.testFunction([...inputs, ...targets])).toFloat());
        const { values } = await sumsOf(means, samples);
        total.values = total.values.map((value, i) => value + values[i]!);
        total.samples += samples;
      } finally {
        disposeElement(element);
      }
    }
    return total;
  };
}

/**
 * Returns the means over the samples of all ranks, in the order of TensorFlow.js's `evaluate`; NaN
 * without samples. Every rank must call it.
 */
export async function evaluateOnAllRanks(group: ProcessGroup, heldOut: HeldOut): Promise<number[]> {
  const { values, samples } = await heldOut();
  const totals = Float64Array.of(...values, samples);
  await group.allReduce(totals);
  const all = totals.at(-1)!;
  return Array.from(totals.subarray(0, -1), (total) => total / all);
}

function noSums({ lossFunctions, metricsTensors }: CompiledModel): Sums {
  return { values: Array.from({ length: lossFunctions.length + metricsTensors.length }, () => 0), samples: 0 };
}

/** Reads means of samples and disposes of them. */
async function sumsOf(means: tf.Tensor, samples: number): Promise<Sums> {
  const values = await means.data().finally(() => means.dispose());
  return { values: Array.from(values, (mean) => mean * samples), samples };
}
