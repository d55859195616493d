/** Counts right and wrong predictions of a classifier, from its logits. */
import { UsageError } from '../../util/errors.ts';

/**
 * Returns the number of rows in which the logit of the label is the largest. If several logits are
 * equally large, the first of them is regarded as the largest, as in argmax. A row with a NaN is a
 * wrong prediction. Rows of weight 0 are skipped.
 *
 * @param logits [rows * classes] read back from the device, row by row. If there are more rows
 *   than labels, the last rows are ignored.
 * @param labels [rows]
 * @param weights [rows]. If missing, no row is skipped.
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
 * Returns the number of rows in which the logit of the label is one of the `k` largest logits. For
 * k = 1, this is {@link countCorrect}.
 *
 * @throws like {@link countCorrect}.
 */
export function countLabelsInTopK(
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
 * Returns a confusion matrix, [classes * classes], with one row per label and one column per
 * predicted class. The sum of its diagonal is {@link countCorrect}. Rows with a NaN are not
 * included.
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
 * Yields the label of each row, the predicted class (`null` if the row has a NaN), and the offset
 * of the row's logits.
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
