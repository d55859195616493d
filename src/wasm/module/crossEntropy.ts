/**
 * Cross-entropy of the softmax of each row of logits, from integer labels. Of each row, three
 * values are kept: its loss, its maximum, and the sum of exp(logit - maximum). Rows whose label is
 * not a class change neither the loss nor a gradient.
 */
import { exp4 } from './exp';
import { loadSome, maximumOf, storeSome, sumOf } from './lanes';

const KEPT: i32 = 3;

/** Writes the sum of weight * loss, and what is kept of each row. */
export function crossEntropy(
  sum: usize,
  kept: usize,
  logits: usize,
  labels: usize,
  weights: usize,
  rows: i32,
  classes: i32,
): void {
  let losses: f64 = 0;
  for (let i = 0; i < rows; i++) {
    let high = f32x4.splat(-Infinity);
    for (let j = 0; j < classes; j += 4) {
      high = f32x4.max(high, loadSome(logits + 4 * j, classes - j, -Infinity));
    }
    const maximum = maximumOf(high);
    let exponentials = f32x4.splat(0);
    for (let j = 0; j < classes; j += 4) {
      const value = loadSome(logits + 4 * j, classes - j, -Infinity);
      exponentials = f32x4.add(exponentials, exp4(f32x4.sub(value, f32x4.splat(maximum))));
    }
    const total = sumOf(exponentials);
    const label = load<i32>(labels + 4 * i);
    let loss: f32 = 0;
    if (label >= 0 && label < classes) loss = Mathf.log(total) - (load<f32>(logits + 4 * label) - maximum);
    store<f32>(kept, loss);
    store<f32>(kept, maximum, 4);
    store<f32>(kept, total, 8);
    losses += (load<f32>(weights + 4 * i) as f64) * loss;
    logits += 4 * classes;
    kept += 4 * KEPT;
  }
  store<f32>(sum, losses as f32);
}

/** dlogits = (exp(logits - maximum) / sum - [class is label]) * weight * dy. */
export function crossEntropyGradient(
  dlogits: usize,
  logits: usize,
  labels: usize,
  weights: usize,
  kept: usize,
  dy: usize,
  rows: i32,
  classes: i32,
): void {
  for (let i = 0; i < rows; i++) {
    const label = load<i32>(labels + 4 * i);
    const isClass = label >= 0 && label < classes;
    const factor: f32 = isClass ? load<f32>(weights + 4 * i) * load<f32>(dy) : 0;
    const maximum = f32x4.splat(load<f32>(kept, 4));
    const total = f32x4.splat(load<f32>(kept, 8));
    for (let j = 0; j < classes; j += 4) {
      const value = f32x4.div(exp4(f32x4.sub(loadSome(logits + 4 * j, classes - j), maximum)), total);
      storeSome(dlogits + 4 * j, f32x4.mul(value, f32x4.splat(factor)), classes - j);
    }
    if (isClass) {
      const own = logits + 4 * label;
      const share = f32x4.extract_lane(exp4(f32x4.splat(load<f32>(own) - load<f32>(kept, 4))), 0) / load<f32>(kept, 8);
      store<f32>(dlogits + 4 * label, (share - 1) * factor);
    }
    logits += 4 * classes;
    dlogits += 4 * classes;
    kept += 4 * KEPT;
  }
}
