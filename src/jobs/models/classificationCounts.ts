/** Counts of right and wrong answers of a classifier, from its logits. */
import { UsageError } from '../../util/errors.ts';

/**
 * Number of rows whose largest logit is at their label. Of equal logits the first counts as the
 * largest, as for argmax; rows with a NaN count as wrong. Rows of weight 0 are skipped.
 *
 * @param logits [rows * classes] read back from the device, row by row; rows beyond the labels are
 *   ignored.
 * @param labels [rows]
 * @param weights [rows]; if missing, all rows count.
 * @throws UsageError if there are fewer logits or weights than labels.
 */
export function countCorrect(
  logits: ArrayLike<number>,
  labels: ArrayLike<number>,
  classes: number,
  weights?: ArrayLike<number>,
): number {
  let correct = 0;
  for (const [label, answer] of answered(logits, labels, classes, weights)) if (answer === label) correct++;
  return correct;
}

/**
 * Number of rows whose label is among their `k` largest logits; for k = 1 the same as {@link
 * countCorrect}.
 *
 * @throws like {@link countCorrect}.
 */
export function countAmongFirst(
  k: number,
  logits: ArrayLike<number>,
  labels: ArrayLike<number>,
  classes: number,
  weights?: ArrayLike<number>,
): number {
  let among = 0;
  for (const [label, answer, at] of answered(logits, labels, classes, weights)) {
    if (answer === null) continue;
    let ahead = 0;
    for (let i = 0; i < classes; i++) {
      const lead = logits[at + i]! - logits[at + label]!;
      if (lead > 0 || (lead === 0 && i < label)) ahead++;
    }
    if (ahead < k) among++;
  }
  return among;
}

/**
 * Confusion matrix, [classes * classes]: one row per label, one column per predicted class. Its
 * diagonal sums to {@link countCorrect}. Rows with a NaN are not counted.
 *
 * @throws like {@link countCorrect}.
 */
export function countConfusion(
  logits: ArrayLike<number>,
  labels: ArrayLike<number>,
  classes: number,
  weights?: ArrayLike<number>,
): Uint32Array {
  const counts = new Uint32Array(classes * classes);
  for (const [label, answer] of answered(logits, labels, classes, weights)) {
    if (answer !== null) counts[label * classes + answer]! += 1;
  }
  return counts;
}

/**
 * Label and predicted class of each row (`null` for a row with a NaN), and the offset of its
 * logits.
 */
function* answered(
  logits: ArrayLike<number>,
  labels: ArrayLike<number>,
  classes: number,
  weights?: ArrayLike<number>,
): Generator<[label: number, answer: number | null, at: number]> {
  const rows = labels.length;
  if (logits.length < rows * classes || (weights !== undefined && weights.length < rows)) {
    throw new UsageError(`${rows} labels of ${classes} classes need ${rows * classes} logits and ${rows} weights.`);
  }
  for (let row = 0; row < rows; row++) {
    if (weights !== undefined && weights[row] === 0) continue;
    const at = row * classes;
    let answer: number | null = 0;
    for (let k = 0; k < classes && answer !== null; k++) {
      const logit = logits[at + k]!;
      if (Number.isNaN(logit)) answer = null;
      else if (logit > logits[at + answer]!) answer = k;
    }
    yield [labels[row]!, answer, at];
  }
}
