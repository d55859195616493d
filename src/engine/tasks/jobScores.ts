/** Loss and scores of a job's samples, from the logits of its model. */
import type * as tf from '@tensorflow/tfjs';
import {
  extraRegressionMetrics,
  regressionSums,
  extraClassificationMetrics,
  countLabelsInTopK,
  countConfusion,
  countCorrect,
  TOP_CLASS_COUNT,
  lossSumFunctionOf,
  type Dataset,
  type HeldOutMetrics,
} from '../../jobs/index.ts';
import { confusionClassNames } from '../../protocol/confusion.ts';
import type { JobSpec } from '../../spec/job.ts';
import { lossNameOfJob } from '../../spec/measures.ts';
import type { SampleBatch, BatchTensors } from './batch.ts';
import type { EvaluatedBatch } from './task.ts';

export interface JobScores {
  readonly classifies: boolean;
  /** See `TrainingTask.classes`. */
  readonly classes: readonly string[] | undefined;
  readonly metrics: HeldOutMetrics;
  /** Returns the summed loss of a batch. */
  loss(logits: tf.Tensor2D, batch: Pick<BatchTensors, 'labels' | 'weights'>): tf.Scalar;
  /**
   * Returns what `TrainingTask.evaluate` returns, for the batch whose samples are in `batch` now.
   */
  evaluate(
    logits: tf.Tensor2D,
    tensors: Pick<BatchTensors, 'labels' | 'weights'>,
    batch: SampleBatch,
  ): Promise<EvaluatedBatch>;
}

export function createJobScores(job: JobSpec, { labelUnit, classes, classNames }: Dataset): JobScores {
  const names = labelUnit === undefined ? confusionClassNames(classes, classNames) : undefined;
  const lossSum = lossSumFunctionOf(lossNameOfJob(job, labelUnit === undefined ? 'classification' : 'regression'));
  const metrics = labelUnit === undefined ? extraClassificationMetrics(job) : extraRegressionMetrics(job, labelUnit);
  return {
    classifies: labelUnit === undefined,
    classes: names,
    metrics,
    loss: (logits, { labels, weights }) => lossSum(logits, labels, weights),
    evaluate: async (logits, { labels, weights }, batch) => {
      const loss = lossSum(logits, labels, weights);
      try {
        const [values, [sum]] = await Promise.all([logits.data(), loss.data()]);
        const { labels: expected, weights: counted } = batch;
        if (labelUnit !== undefined) {
          return { lossSum: sum!, correct: 0, sums: regressionSums(values, expected, counted) };
        }
        const rows = [values, expected, logits.size / batch.size, counted] as const;
        return {
          lossSum: sum!,
          correct: countCorrect(...rows),
          ...(metrics.sums > 0 && { sums: [countLabelsInTopK(TOP_CLASS_COUNT, ...rows)] }),
          ...(names && { confusion: countConfusion(...rows) }),
        };
      } finally {
        loss.dispose();
      }
    },
  };
}
