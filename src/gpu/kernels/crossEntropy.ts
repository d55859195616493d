/**
 * Cross-entropy of the softmax of each row of logits, from integer labels. The maximum of a row and
 * the sum of its exponentials are found in one pass (Milakov and Gimelshein, "Online normalizer
 * calculation for softmax", 2018), and kept for the gradient, which is
 *
 *   dlogits = (exp(logits - maximum) / sum - [class is label]) * weight * dy
 *
 * Rows have 10 (digits) to tens of thousands (tokens) of classes. The gradient is the only tensor
 * that is made with the size of the logits.
 */
import * as tf from '@tensorflow/tfjs';
import type { WebGpuBackend } from '../backend.ts';
import { runGpuProgram, type GpuProgram } from '../program.ts';
import { hasKernel, type KernelArguments, type TrainingOp } from './registry.ts';
import {
  loadWidthOf,
  elementCode,
  rowLayoutCode,
  rowDispatch,
  chooseRowThreadLayout,
  rowReductionCode,
} from './rows.ts';

/**
 * Returns the sum over rows of weight * cross-entropy, in nats. For the mean, divide it by the sum
 * of the weights.
 *
 * Two kinds of rows change neither the loss nor a gradient: rows of weight 0 with finite logits,
 * and rows whose label is not a class.
 *
 * @param logits float32 [rows, classes]
 * @param labels int32 [rows], 0 .. classes-1
 * @param weights float32 [rows], >= 0
 */
export function crossEntropySum(logits: tf.Tensor2D, labels: tf.Tensor1D, weights: tf.Tensor1D): tf.Scalar {
  const areFloats = logits.dtype === 'float32' && weights.dtype === 'float32';
  if (!areFloats || !hasKernel('CrossEntropySum')) return composed(logits, labels, weights);
  return tf.tidy(() => {
    const inputs = { logits, labels, weights };
    const [sum] = tf.engine().runKernel('CrossEntropySum', inputs) as [tf.Scalar, tf.Tensor];
    return sum;
  });
}

function composed(logits: tf.Tensor2D, labels: tf.Tensor1D, weights: tf.Tensor1D): tf.Scalar {
  return tf.tidy(() => {
    // On wasm, TensorFlow.js 4.22 returns integers even if float32 is requested.
    const targets = tf.cast(tf.oneHot(labels, logits.shape[1]), 'float32');
    // logSoftmax subtracts the maximum of the row first, so large logits do not overflow. On
    // WebGPU, logSoftmax is correct for more than 65 536 rows; softmax is not.
    const chosen = tf.sum(tf.mul(tf.logSoftmax(logits), targets), 1);
    return tf.neg(tf.sum<tf.Scalar>(tf.mul(chosen, weights)));
  });
}

/** Values that are kept of a row: loss, maximum, and sum of exp(logit - maximum). */
const KEPT = 3;

const ROWS = `
// Stands for -Infinity, which WGSL lacks: exp(LOWEST - x) is 0 for usual numbers x.
const LOWEST = -3.4e38;
fn main() {
  let row = rowIndex();
  let start = row * uniforms.columns;
  var highest = LOWEST;
  var total = 0.0;
  for (var i = lane(); i < uniforms.columns; i += LANES) {
    let next = logits[start + i];
    let high = largest(next);
    if (high > highest) {
      total *= exp(highest - high);
      highest = high;
    }
    total += fold(exp(next - highest));
    if (isLost(next)) { total = uniforms.NAN; }
  }
  let maximum = rowMaximum(highest);
  let sum = rowSum(total * exp(highest - maximum));
  if (lane() == 0) {
    let label = labels[row];
    var loss = 0.0;
    if (label >= 0 && label < uniforms.columns * COMPONENTS) {
      let own = component(logits[start + label / COMPONENTS], label % COMPONENTS);
      loss = select(log(sum) - (own - maximum), sum, isnan(sum));
    }
    result[${KEPT} * row] = loss;
    result[${KEPT} * row + 1] = maximum;
    result[${KEPT} * row + 2] = sum;
  }
}
`;

/**
 * Returns the loss of each row, and the values of the row that the gradient needs: float32 [rows,
 * {@link KEPT}]
 */
function keptOfRows(backend: WebGpuBackend, logits: tf.TensorInfo, labels: tf.TensorInfo): tf.TensorInfo {
  const { layout, components, uniforms, rows } = describe(backend, logits);
  const program: GpuProgram = {
    key: `crossEntropyRows ${components} ${layout.lanes}`,
    inputs: { logits: components, labels: 1 },
    uniforms,
    ...rowDispatch(backend, rows, layout),
    code: () =>
      elementCode(components) +
      rowLayoutCode(layout) +
      rowReductionCode(layout, 'rowMaximum', 'f32', 'max(a, b)') +
      rowReductionCode(layout, 'rowSum', 'f32') +
      ROWS,
  };
  return runGpuProgram(backend, program, [logits, labels], [rows, KEPT]);
}

/** One workgroup sums the losses of all rows. */
const SUM = `
fn main() {
  var sum = 0.0;
  for (var i = lane(); i < uniforms.columns; i += LANES) {
    sum += weights[i] * kept[${KEPT} * i];
  }
  result[0] = rowSum(sum);
}
`;

function sumOfLosses(backend: WebGpuBackend, kept: tf.TensorInfo, weights: tf.TensorInfo): tf.TensorInfo {
  const rows = weights.shape[0]!;
  const layout = chooseRowThreadLayout(backend, rows);
  const program: GpuProgram = {
    key: `crossEntropySum ${layout.lanes}`,
    inputs: { kept: 1, weights: 1 },
    uniforms: { rows: { type: 'i32', value: 1 }, columns: { type: 'i32', value: rows } },
    ...rowDispatch(backend, 1, layout),
    code: () => rowLayoutCode(layout) + rowReductionCode(layout, 'rowSum', 'f32') + SUM,
  };
  return runGpuProgram(backend, program, [kept, weights], []);
}

function forward({ inputs, backend }: KernelArguments<tf.NamedAttrMap>): tf.TensorInfo[] {
  const kept = keptOfRows(backend, inputs['logits']!, inputs['labels']!);
  return [sumOfLosses(backend, kept, inputs['weights']!), kept];
}

const GRADIENT = `
fn main() {
  let row = rowIndex();
  let start = row * uniforms.columns;
  let label = labels[row];
  let isClass = label >= 0 && label < uniforms.columns * COMPONENTS;
  let factor = select(0.0, weights[row] * dy[0], isClass);
  let maximum = kept[${KEPT} * row + 1];
  let sum = kept[${KEPT} * row + 2];
  for (var i = lane(); i < uniforms.columns; i += LANES) {
    result[start + i] = (exp(logits[start + i] - maximum) / sum - oneHot(i, label)) * factor;
  }
}
`;

function gradientByLogits({ inputs, backend }: KernelArguments<tf.NamedAttrMap>): tf.TensorInfo {
  const logits = inputs['logits']!;
  const { layout, components, uniforms, rows } = describe(backend, logits);
  const program: GpuProgram = {
    key: `crossEntropyGradient ${components} ${layout.lanes}`,
    inputs: { logits: components, labels: 1, weights: 1, kept: 1, dy: 1 },
    outputComponents: components,
    uniforms,
    ...rowDispatch(backend, rows, layout),
    code: () => elementCode(components) + rowLayoutCode(layout) + GRADIENT,
  };
  const others = ['labels', 'weights', 'kept', 'dy'].map((name) => inputs[name]!);
  return runGpuProgram(backend, program, [logits, ...others], logits.shape);
}

function describe(backend: WebGpuBackend, { shape }: tf.TensorInfo) {
  const [rows, classes] = shape as [number, number];
  const components = loadWidthOf(classes);
  const columns = classes / components;
  const uniforms = { rows: { type: 'i32', value: rows }, columns: { type: 'i32', value: columns } } as const;
  return { rows, components, layout: chooseRowThreadLayout(backend, columns), uniforms };
}

export const crossEntropyOps: readonly TrainingOp[] = [
  {
    kernelName: 'CrossEntropySum',
    run: forward,
    gradient: {
      inputsToSave: ['logits', 'labels', 'weights'],
      outputsToSave: [false, true],
      gradFunc: (dys, saved) => {
        const [dy] = dys as tf.Tensor[];
        const [logits, labels, weights, kept] = saved as [tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor];
        const inputs = { logits, labels, weights, kept, dy: dy! };
        return {
          logits: () => tf.engine().runKernel('CrossEntropyGradient', inputs) as tf.Tensor,
          weights: () => kept.slice([0, 0], [-1, 1]).as1D().mul(dy!),
        };
      },
    },
  },
  { kernelName: 'CrossEntropyGradient', run: gradientByLogits },
];
