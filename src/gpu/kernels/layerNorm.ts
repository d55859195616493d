/**
 * Layer normalization (Ba, Kiros and Hinton, "Layer Normalization", 2016). For a row x with n
 * channels, m = mean(x), r = 1 / sqrt(mean((x - m)^2) + epsilon) and z = (x - m) * r, the result is
 * y = scale * z + offset. With g = scale * dy, the gradients are
 *
 *   dx = r * (g - mean(g) - z * mean(g * z))
 *   dscale = sum over rows of dy * z
 *   doffset = sum over rows of dy
 *
 * The variance is the mean of squares of differences from the mean, in a second pass over the row:
 * mean(x^2) - m^2 would lose all digits where the mean is large. The mean of the differences, which
 * is the rounding error of m, corrects both (Chan, Golub and LeVeque, "Algorithms for computing the
 * sample variance", 1983).
 */
import * as tf from '@tensorflow/tfjs';
import { columnSum } from './columnSum.ts';
import {
  runRowNormalization,
  partialScaleGradient,
  runNormalizationProgram,
  type RowNormalization,
  type NormArguments,
} from './normalization.ts';
import { usesOwnKernels, type TrainingOp } from './registry.ts';
import { rowReductionCode, type RowThreadLayout } from './rows.ts';

/**
 * Normalizes each row of `x`.
 *
 * @param x float32 [..., channels]
 * @param scale float32 [channels]
 * @param offset float32 [channels]
 * @param epsilon added to variances to avoid a division by zero.
 * @returns float32, the shape of `x`
 */
export function layerNorm(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, epsilon: number): tf.Tensor {
  if (usesOwnKernels()) return tf.engine().runKernel('LayerNorm', { x, scale, offset }, { epsilon }) as tf.Tensor;
  return tf.tidy(() => {
    const { mean, variance } = tf.moments(x, -1, true);
    return x
      .sub(mean)
      .mul(tf.rsqrt(variance.add(epsilon)))
      .mul(scale)
      .add(offset);
  });
}

const layer: RowNormalization = {
  name: 'layerNorm',
  code: (layout) => `
// The rounded mean, its correction, and r.
alias Statistics = vec3<f32>;
fn normalized(value: Element, row: Statistics) -> Element { return (value - row.x - row.y) * row.z; }
${rowReductionCode(layout, 'rowSum', 'f32')}
fn meanOf(start: i32) -> f32 {
  var sum = Element();
  for (var i = lane(); i < uniforms.columns; i += LANES) { sum += x[start + i]; }
  return rowSum(fold(sum)) / uniforms.channels;
}
// correction: mean of the differences from the rounded mean; squares: mean of their squares.
fn inverseDeviation(correction: f32, squares: f32) -> f32 {
  return inverseSqrt(max(squares - correction * correction, 0.0) + uniforms.epsilon);
}
${rowReductionCode(layout, 'rowSums', 'vec2<f32>')}
fn statisticsOf(start: i32) -> Statistics {
  let mean = meanOf(start);
  var differences = Element();
  var squares = Element();
  for (var i = lane(); i < uniforms.columns; i += LANES) {
    let d = x[start + i] - mean;
    differences += d;
    squares += d * d;
  }
  let means = rowSums(vec2<f32>(fold(differences), fold(squares))) / uniforms.channels;
  return Statistics(mean, means.x, inverseDeviation(means.x, means.y));
}
`,
};

/**
 * Computes the statistics and the two means of the gradient in the same two passes over the row.
 */
const gradientCode = (layout: RowThreadLayout): string => `
${rowReductionCode(layout, 'gradientSums', 'vec4<f32>')}
fn main() {
  let start = rowIndex() * uniforms.columns;
  let mean = meanOf(start);
  var differences = Element();
  var squares = Element();
  var gradients = Element();
  var products = Element();
  for (var i = lane(); i < uniforms.columns; i += LANES) {
    let d = x[start + i] - mean;
    let g = scale[i] * dy[start + i];
    differences += d;
    squares += d * d;
    gradients += g;
    products += g * d;
  }
  let sums = vec4<f32>(fold(differences), fold(squares), fold(gradients), fold(products));
  let means = gradientSums(sums) / uniforms.channels;
  let row = Statistics(mean, means.x, inverseDeviation(means.x, means.y));
  let along = row.z * (means.w - means.x * means.z);
  for (var i = lane(); i < uniforms.columns; i += LANES) {
    let at = start + i;
    result[at] = row.z * (scale[i] * dy[at] - means.z - along * normalized(x[at], row));
  }
}
`;

function gradientByX(args: NormArguments): tf.TensorInfo {
  return runNormalizationProgram(
    layer,
    { key: 'layerNormGradient', names: ['x', 'scale', 'dy'], code: gradientCode },
    args,
  );
}

function gradient(dys: tf.Tensor | tf.Tensor[], saved: tf.Tensor[], attrs: tf.NamedAttrMap) {
  const [x, scale] = saved as [tf.Tensor, tf.Tensor];
  const dy = dys as tf.Tensor;
  const run = (kernelName: string, inputs: tf.NamedTensorMap): tf.Tensor =>
    tf.engine().runKernel(kernelName, inputs, attrs) as tf.Tensor;
  return {
    x: () => run('LayerNormGradient', { x, scale, dy }),
    scale: () => columnSum(run('LayerNormScaleGradient', { x, dy })),
    offset: () => columnSum(dy),
  };
}

export const layerNormOps: readonly TrainingOp[] = [
  {
    kernelName: 'LayerNorm',
    run: (args) => runRowNormalization(layer, args),
    gradient: { inputsToSave: ['x', 'scale'], gradFunc: gradient },
  },
  { kernelName: 'LayerNormGradient', run: gradientByX },
  { kernelName: 'LayerNormScaleGradient', run: (args) => partialScaleGradient(layer, args) },
];
