/** Figures of a confusion matrix. */
import type { Confusion } from '../../protocol/confusion.ts';

interface Worst {
  truth: string;
  answer: string;
  /** Samples of the class `truth` that were predicted as `answer`. */
  times: number;
}

/** The most frequent mistake, the first of equals; `null` if all predictions are correct. */
export function mostConfused({ classes, counts }: Confusion): Worst | null {
  let worst: Worst | null = null;
  for (const [i, row] of counts.entries()) {
    for (const [k, times] of row.entries()) {
      if (i !== k && times > (worst?.times ?? 0)) worst = { truth: classes[i]!, answer: classes[k]!, times };
    }
  }
  return worst;
}

/** The number of samples in a row. */
export function sampleCount(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}
