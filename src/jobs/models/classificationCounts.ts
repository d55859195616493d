/** Counts of right and wrong answers of a classifier, from its logits. */
import { UsageError } from '../../util/errors.ts';

/**
 * How many rows have their largest logit at their label. Of equal logits the first is the largest,
 * as for argmax; a row with a NaN is not right. Rows of weight 0 do not count.
 *
 * @param logits [rows * classes] read back from the device, row by row; more rows than labels are
 *   left alone
 * @param labels [rows]
 * @param weights [rows], or nothing if all rows count
 * @throws UsageError if there are fewer logits or weights than the labels need.
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
 * How many rows have their label among their `k` largest logits: with 1, what {@link countCorrect}
 * counts.
 *
 * @throws as it.
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
 * How many rows of each label have their largest logit where, [classes * classes], a row for each
 * label; what {@link countCorrect} counts is its diagonal. Rows with a NaN are in none.
 *
 * @throws as it.
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

/** Rows' labels and answers, `null` for a row with a NaN, and where their logits begin. */
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
