/** What a table of counts says at a glance. */
import type { Confusion } from '../../protocol/confusion.ts';

interface Worst {
  truth: string;
  answer: string;
  /** Samples of the one that were taken for the other. */
  times: number;
}

/** What is most often taken for another, of equals the first; `null` where nothing is. */
export function mostConfused({ classes, counts }: Confusion): Worst | null {
  let worst: Worst | null = null;
  for (const [i, row] of counts.entries()) {
    for (const [k, times] of row.entries()) {
      if (i !== k && times > (worst?.times ?? 0)) worst = { truth: classes[i]!, answer: classes[k]!, times };
    }
  }
  return worst;
}

/** Samples that were counted: of a row, or of all. */
export function sampleCount(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}
