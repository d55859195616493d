/** Computes facts about a confusion matrix. */
import type { ConfusionMatrix } from '../../protocol/confusion.ts';

interface Worst {
  truth: string;
  answer: string;
  /** The number of samples of class `truth` that were predicted as class `answer`. */
  times: number;
}

/**
 * Returns the most frequent mistake, or `null` if all predictions are correct. If several mistakes
 * are equally frequent, returns the first of them.
 */
export function mostFrequentMistake({ classes, counts }: ConfusionMatrix): Worst | null {
  let worst: Worst | null = null;
  for (const [i, row] of counts.entries()) {
    for (const [k, times] of row.entries()) {
      if (i !== k && times > (worst?.times ?? 0)) worst = { truth: classes[i]!, answer: classes[k]!, times };
    }
  }
  return worst;
}

export function sumOfCounts(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}
