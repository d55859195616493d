/**
 * RMS normalization (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019). For a row x
 * with n channels and r = 1 / sqrt(mean(x^2) + epsilon), the result is y = scale * x * r. The
 * gradients are
 *
 *   dx = r * scale * dy - x * r^3 / n * sum(scale * dy * x)
 *   dscale = sum over rows of dy * x * r
 *
 * r is computed again for gradients: they read x anyway, and the forward pass then has one output.
 */
import * as tf from '@tensorflow/tfjs';
import { sizeOf } from '../util/shape.ts';
import type { Backend } from '../webgpu/backend.ts';
import { runProgram, spread, type Components, type Program } from '../webgpu/program.ts';
import { columnSum } from './columnSum.ts';
import { usesOwnKernels, type KernelArguments, type TrainingOp } from './registry.ts';
import { componentsOf, elementCode, rowCode, rowDispatch, rowLayout, rowReduction } from './rows.ts';

/**
 * Normalizes each row of `x`.
 *
 * @param x float32 [..., channels]
 * @param scale float32 [channels]
 * @param epsilon added to mean squares to avoid a division by zero.
 * @returns float32, the shape of `x`
 */
export function rmsNorm(x: tf.Tensor, scale: tf.Tensor, epsilon: number): tf.Tensor {
  if (usesOwnKernels()) return tf.engine().runKernel('RmsNorm', { x, scale }, { epsilon }) as tf.Tensor;
  return tf.tidy(() => x.mul(tf.rsqrt(tf.mean(tf.square(x), -1, true).add(epsilon))).mul(scale));
}

/**
 * Normalizes each row of `x`, and passes `x` on to a residual connection. The kernel of the
 * gradient by `x` adds the gradient of `passed`, which otherwise takes a dispatch.
 *
 * @param x, scale, epsilon those of {@link rmsNorm}
 * @returns the normalized rows, and `x` itself or a tensor with its data.
 */
export function rmsNormResidual(
  x: tf.Tensor,
  scale: tf.Tensor,
  epsilon: number,
): [normed: tf.Tensor, passed: tf.Tensor] {
  if (!usesOwnKernels()) return [rmsNorm(x, scale, epsilon), x];
  return tf.engine().runKernel('RmsNormResidual', { x, scale }, { epsilon }) as [tf.Tensor, tf.Tensor];
}

/** Rows of which a workgroup sums the gradient of the scale. */
const BLOCK = 16;

type NormArguments = KernelArguments<tf.NamedAttrMap>;

const FORWARD = `
fn main() {
  let start = rowIndex() * uniforms.columns;
  var squares = Element();
  for (var i = lane(); i < uniforms.columns; i += LANES) {
    squares += x[start + i] * x[start + i];
  }
  let r = inverseSqrt(rowSum(fold(squares)) / uniforms.channels + uniforms.epsilon);
  for (var i = lane(); i < uniforms.columns; i += LANES) {
    result[start + i] = x[start + i] * r * scale[i];
  }
}
`;

function forward({ inputs, attrs, backend }: NormArguments): tf.TensorInfo {
  const x = inputs['x']!;
  const own = describe(backend, x, attrs);
  const program: Program = {
    ...own.program,
    key: `rmsNorm ${own.key}`,
    inputs: { x: own.components, scale: own.components },
    code: own.prelude('f32') + FORWARD,
  };
  return runProgram(backend, program, [x, inputs['scale']!], x.shape);
}

function forwardResidual(own: NormArguments): tf.TensorInfo[] {
  const { dataId, shape, dtype } = own.inputs['x']!;
  own.backend.incRef(dataId);
  return [forward(own), { dataId, shape, dtype }];
}

/** @param passed WGSL code after the expression of the gradient at `at` */
const gradientCode = (passed: string): string => `
fn main() {
  let start = rowIndex() * uniforms.columns;
  var squares = Element();
  var products = Element();
  for (var i = lane(); i < uniforms.columns; i += LANES) {
    let xi = x[start + i];
    squares += xi * xi;
    products += xi * scale[i] * dy[start + i];
  }
  let sums = rowSum(vec2<f32>(fold(squares), fold(products)));
  let r = inverseSqrt(sums.x / uniforms.channels + uniforms.epsilon);
  let along = r * r * r * sums.y / uniforms.channels;
  for (var i = lane(); i < uniforms.columns; i += LANES) {
    let at = start + i;
    result[at] = r * scale[i] * dy[at] - along * x[at]${passed};
  }
}
`;

function gradientByX({ inputs, attrs, backend }: NormArguments): tf.TensorInfo {
  const x = inputs['x']!;
  const own = describe(backend, x, attrs);
  const names = ['x', 'scale', 'dy', 'dPassed'].filter((name) => name in inputs);
  const isResidual = 'dPassed' in inputs;
  const program: Program = {
    ...own.program,
    key: `rmsNormGradient ${own.key} ${isResidual ? 'residual' : ''}`,
    inputs: Object.fromEntries(names.map((name) => [name, own.components])),
    code: own.prelude('vec2<f32>') + gradientCode(isResidual ? ' + dPassed[at]' : ''),
  };
  const tensors = names.map((name) => inputs[name]!);
  return runProgram(backend, program, tensors, x.shape);
}

/** Sums one block of rows. Threads first share rows to compute r, then each takes columns. */
const SCALE_GRADIENT = `
var<workgroup> roots: array<f32, ${BLOCK}>;
fn main() {
  let block = min(flatWorkgroup(), uniforms.blocks - 1);
  let first = block * ${BLOCK};
  for (var next = 0; next < ${BLOCK}; next += ROWS_AT_ONCE) {
    let own = next + i32(localIndex) / LANES;
    let start = min(first + own, uniforms.rows - 1) * uniforms.columns;
    var squares = Element();
    for (var i = lane(); i < uniforms.columns; i += LANES) {
      squares += x[start + i] * x[start + i];
    }
    roots[own] = inverseSqrt(rowSum(fold(squares)) / uniforms.channels + uniforms.epsilon);
    workgroupBarrier();
  }
  let rows = min(${BLOCK}, uniforms.rows - first);
  for (var i = i32(localIndex); i < uniforms.columns; i += THREADS) {
    var sum = Element();
    for (var own = 0; own < rows; own++) {
      let at = (first + own) * uniforms.columns + i;
      sum += dy[at] * x[at] * roots[own];
    }
    result[block * uniforms.columns + i] = sum;
  }
}
`;

/** Returns float32 [blocks, channels], whose sum over blocks is the gradient of the scale. */
function partialGradientByScale({ inputs, attrs, backend }: NormArguments): tf.TensorInfo {
  const x = inputs['x']!;
  const own = describe(backend, x, attrs);
  const blocks = Math.ceil(own.rows / BLOCK);
  const program: Program = {
    ...own.program,
    uniforms: { ...own.program.uniforms, blocks: { type: 'i32', value: blocks } },
    dispatch: spread(backend, blocks),
    key: `rmsNormScaleGradient ${own.key}`,
    inputs: { x: own.components, dy: own.components },
    code: own.prelude('f32') + SCALE_GRADIENT,
  };
  return runProgram(backend, program, [x, inputs['dy']!], [blocks, own.channels]);
}

interface Description {
  rows: number;
  channels: number;
  components: Components;
  key: string;
  program: Pick<Program, 'outputComponents' | 'uniforms' | 'workgroupSize' | 'dispatch'>;
  prelude: (sumType: 'f32' | 'vec2<f32>') => string;
}

function describe(backend: Backend, x: tf.TensorInfo, attrs: tf.NamedAttrMap): Description {
  const channels = x.shape.at(-1)!;
  const rows = sizeOf(x.shape) / channels;
  const components = componentsOf(channels);
  const columns = channels / components;
  const layout = rowLayout(columns);
  return {
    rows,
    channels,
    components,
    key: `${components} ${layout.lanes}`,
    program: {
      outputComponents: components,
      uniforms: {
        rows: { type: 'i32', value: rows },
        columns: { type: 'i32', value: columns },
        channels: { type: 'f32', value: channels },
        epsilon: { type: 'f32', value: attrs['epsilon'] as number },
      },
      ...rowDispatch(backend, rows, layout),
    },
    prelude: (sumType) => elementCode(components) + rowCode(layout) + rowReduction(layout, 'rowSum', sumType, 'a + b'),
  };
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

export const rmsNormOps: readonly TrainingOp[] = [
  { kernelName: 'RmsNorm', run: forward, gradient: { inputsToSave: ['x', 'scale'], gradFunc: gradient } },
  {
    kernelName: 'RmsNormResidual',
    run: forwardResidual,
    gradient: { inputsToSave: ['x', 'scale'], gradFunc: gradient },
  },
  { kernelName: 'RmsNormGradient', run: gradientByX },
  { kernelName: 'RmsNormScaleGradient', run: partialGradientByScale },
];
