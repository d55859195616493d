/**
 * RMS normalization (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019). For a row x
 * with n channels and r = 1 / sqrt(mean(x^2) + epsilon), the result is y = scale * x * r. The
 * gradients are
 *
 *   dx = r * scale * dy - x * r^3 / n * sum(scale * dy * x)
 *   dscale = sum over rows of dy * x * r
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
import { hasKernel, type TrainingOp } from './registry.ts';
import { rowReductionCode, type RowThreadLayout } from './rows.ts';

/**
 * Normalizes each row of `x`.
 *
 * @param x float32 [..., channels]
 * @param scale float32 [channels]
 * @param epsilon added to mean squares to avoid a division by zero.
 * @returns float32, the shape of `x`
 */
export function rmsNorm(x: tf.Tensor, scale: tf.Tensor, epsilon: number): tf.Tensor {
  if (hasKernel('RmsNorm')) return tf.engine().runKernel('RmsNorm', { x, scale }, { epsilon }) as tf.Tensor;
  return tf.tidy(() => x.mul(tf.rsqrt(tf.mean(tf.square(x), -1, true).add(epsilon))).mul(scale));
}

/**
 * Normalizes each row of `x`, and passes `x` on to a residual connection. The kernel that computes
 * the gradient of `x` also adds the gradient of `passed`, which saves one dispatch.
 *
 * @param x, scale, epsilon those of {@link rmsNorm}
 * @returns the normalized rows, and `x` itself or a tensor with its data.
 */
export function rmsNormResidual(
  x: tf.Tensor,
  scale: tf.Tensor,
  epsilon: number,
): [normed: tf.Tensor, passed: tf.Tensor] {
  if (!hasKernel('RmsNormResidual')) return [rmsNorm(x, scale, epsilon), x];
  return tf.engine().runKernel('RmsNormResidual', { x, scale }, { epsilon }) as [tf.Tensor, tf.Tensor];
}

const rms: RowNormalization = {
  name: 'rmsNorm',
  code: (layout) => `
alias Statistics = f32;
fn normalized(value: Element, r: Statistics) -> Element { return value * r; }
${rowReductionCode(layout, 'rowSum', 'f32')}
fn statisticsOf(start: i32) -> Statistics {
  var squares = Element();
  for (var i = lane(); i < uniforms.columns; i += LANES) {
    squares += x[start + i] * x[start + i];
  }
  return inverseSqrt(rowSum(fold(squares)) / uniforms.channels + uniforms.epsilon);
}
`,
};

function forwardResidual(args: NormArguments): tf.TensorInfo[] {
  const { dataId, shape, dtype } = args.inputs['x']!;
  args.backend.incRef(dataId);
  return [runRowNormalization(rms, args), { dataId, shape, dtype }];
}

function gradientByX(args: NormArguments): tf.TensorInfo {
  const names = ['x', 'scale', 'dy', 'dPassed'].filter((name) => name in args.inputs);
  const isResidual = names.includes('dPassed');
  const code = (layout: RowThreadLayout): string => `
${rowReductionCode(layout, 'rowSums', 'vec2<f32>')}
fn main() {
  let start = rowIndex() * uniforms.columns;
  var squares = Element();
  var products = Element();
  for (var i = lane(); i < uniforms.columns; i += LANES) {
    let xi = x[start + i];
    squares += xi * xi;
    products += xi * scale[i] * dy[start + i];
  }
  let sums = rowSums(vec2<f32>(fold(squares), fold(products)));
  let r = inverseSqrt(sums.x / uniforms.channels + uniforms.epsilon);
  let along = r * r * r * sums.y / uniforms.channels;
  for (var i = lane(); i < uniforms.columns; i += LANES) {
    let at = start + i;
    result[at] = r * scale[i] * dy[at] - along * x[at]${isResidual ? ' + dPassed[at]' : ''};
  }
}
`;
  return runNormalizationProgram(rms, { key: `rmsNormGradient${isResidual ? 'Residual' : ''}`, names, code }, args);
}

type Gradients = Record<string, () => tf.Tensor>;

function gradient(dy: tf.Tensor | tf.Tensor[], saved: tf.Tensor[], attrs: tf.NamedAttrMap): Gradients {
  const [x, scale] = saved as [tf.Tensor, tf.Tensor];
  const [own, dPassed] = (Array.isArray(dy) ? dy : [dy]) as [tf.Tensor, tf.Tensor?];
  const run = (kernelName: string, inputs: tf.NamedTensorMap): tf.Tensor =>
    tf.engine().runKernel(kernelName, inputs, attrs) as tf.Tensor;
  return {
    x: () => run('RmsNormGradient', { x, scale, dy: own, ...(dPassed && { dPassed }) }),
    scale: () => columnSum(run('RmsNormScaleGradient', { x, dy: own })),
  };
}

const config = { inputsToSave: ['x', 'scale'], gradFunc: gradient };

export const rmsNormOps: readonly TrainingOp[] = [
  { kernelName: 'RmsNorm', run: (args) => runRowNormalization(rms, args), gradient: config },
  { kernelName: 'RmsNormResidual', run: forwardResidual, gradient: config },
  { kernelName: 'RmsNormGradient', run: gradientByX },
  { kernelName: 'RmsNormScaleGradient', run: (args) => partialScaleGradient(rms, args) },
];
