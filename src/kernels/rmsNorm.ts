/**
 * RMS normalization (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019). For a row x
 * with n channels and r = 1 / sqrt(mean(x^2) + epsilon), the result is y = scale * x * r.
 */
import * as tf from '@tensorflow/tfjs';
import { sizeOf } from '../util/shape.ts';
import { FLAT_WORKGROUP, runProgram, spread, type Program } from '../webgpu/program.ts';
import { usesOwnKernels, type KernelArguments, type TrainingOp } from './registry.ts';

/** Threads that sum a row together. */
const THREADS = 64;

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

const CODE = `
var<workgroup> partial: array<f32, ${THREADS}>;
${FLAT_WORKGROUP}
fn main() {
  // Workgroups after the last row compute the last row too, because WGSL rejects barriers after a
  // return.
  let row = min(flatWorkgroup(), uniforms.rows - 1);
  let start = row * uniforms.channels;
  var squares = 0.0;
  for (var i = i32(localIndex); i < uniforms.channels; i += ${THREADS}) {
    squares += x[start + i] * x[start + i];
  }
  partial[localIndex] = squares;
  for (var half = ${THREADS / 2}u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (localIndex < half) { partial[localIndex] += partial[localIndex + half]; }
  }
  workgroupBarrier();
  let r = inverseSqrt(partial[0] / f32(uniforms.channels) + uniforms.epsilon);
  for (var i = i32(localIndex); i < uniforms.channels; i += ${THREADS}) {
    result[start + i] = x[start + i] * r * scale[i];
  }
}
`;

function forward({ inputs, attrs, backend }: KernelArguments<tf.NamedAttrMap>): tf.TensorInfo {
  const x = inputs['x']!;
  const channels = x.shape.at(-1)!;
  const rows = sizeOf(x.shape) / channels;
  const program: Program = {
    key: 'rmsNorm',
    inputs: { x: 1, scale: 1 },
    uniforms: {
      rows: { type: 'i32', value: rows },
      channels: { type: 'i32', value: channels },
      epsilon: { type: 'f32', value: attrs['epsilon'] as number },
    },
    workgroupSize: [THREADS, 1, 1],
    dispatch: spread(backend, rows),
    code: CODE,
  };
  return runProgram(backend, program, [x, inputs['scale']!], x.shape);
}

export const rmsNormOp: TrainingOp = { kernelName: 'RmsNorm', run: forward };
