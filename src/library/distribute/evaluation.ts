/** Computes losses and metrics of held-out samples, on all ranks together. */
import * as tf from '@tensorflow/tfjs';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { evaluateTestBatch, type CompiledModel } from './compiledModel.ts';
import { disposeDatasetElement, nextDatasetElement } from './datasetBatches.ts';
import type { DatasetShare } from './batchSource.ts';
import type { WaitsUntilFailure } from './waitsUntilFailure.ts';
import type { SampleWeights } from './sampleWeights.ts';
import type { SampleSpan, InputsAndTargets } from './tensorData.ts';

/**
 * The losses and metrics of one rank, summed over its samples. Their order is that of
 * `model.evaluate`.
 */
interface Sums {
  values: number[];
  samples: number;
}

/** Computes the sums over the held-out samples of this rank. */
export type EvaluateHeldOut = () => Promise<Sums>;

/**
 * Returns the function that evaluates this rank's held-out samples: those of `span` in `data`.
 *
 * @param weights the weights of all samples in the tensors, including the samples of other ranks.
 */
export function heldOutTensorsEvaluator(
  model: CompiledModel,
  data: InputsAndTargets,
  weights: readonly SampleWeights[],
  span: SampleSpan,
  batchSize: number,
): EvaluateHeldOut {
  const samples = span.end - span.start;
  return async () => {
    if (samples === 0) return noSums(model);
    const sums = tf.tidy(() => {
      const parts: tf.Tensor1D[] = [];
      for (let { start } = span; start < span.end; start += batchSize) {
        const part = { start, end: Math.min(start + batchSize, span.end) };
        parts.push(tf.tidy(() => evaluateTestBatch(model, data.slice(part, weights)).mul(part.end - part.start)));
      }
      return tf.stack(parts).sum(0);
    });
    const values = await sums.data().finally(() => sums.dispose());
    return { values: [...values], samples };
  };
}

/**
 * Returns the function that evaluates this rank's held-out samples: its share of a dataset.
 *
 * @param batches maximum number of batches; `null` if all are used.
 */
export function heldOutDatasetEvaluator(
  model: CompiledModel,
  { dataset, compare }: DatasetShare,
  batches: number | null,
  waits: WaitsUntilFailure,
): EvaluateHeldOut {
  return async () => {
    const iterator = await waits.until(dataset.iterator());
    const total = noSums(model);
    const limit = batches ?? Infinity;
    for (let batch = 0; batch < limit; batch++) {
      const element = await waits.until(
        nextDatasetElement(model, iterator),
        (late) => late && disposeDatasetElement(late),
      );
      try {
        await waits.until(compare());
        if (!element) break;
        const { samples } = element;
        const means = tf.tidy(() => evaluateTestBatch(model, { ...element, weights: [] }));
        const values = await means.data().finally(() => means.dispose());
        total.values = total.values.map((value, i) => value + values[i]! * samples);
        total.samples += samples;
      } finally {
        if (element) disposeDatasetElement(element);
      }
    }
    return total;
  };
}

/**
 * Returns the mean losses and metrics over the samples of all ranks, in the order of
 * TensorFlow.js's `evaluate`. Without samples, the means are NaN. Every rank must call it.
 */
export async function evaluateOnAllRanks(group: ProcessGroup, heldOut: EvaluateHeldOut): Promise<number[]> {
  const { values, samples } = await heldOut();
  const totals = Float64Array.of(...values, samples);
  await group.allReduce(totals);
  const all = totals.at(-1)!;
  return Array.from(totals.subarray(0, -1), (total) => total / all);
}

function noSums({ lossFunctions, metricsTensors }: CompiledModel): Sums {
  return { values: Array.from({ length: lossFunctions.length + metricsTensors.length }, () => 0), samples: 0 };
}
