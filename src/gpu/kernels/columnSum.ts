/**
 * Sums of columns in a fixed order, such as the gradient of a bias. TensorFlow.js transposes the
 * tensor first, and then sums each row.
 */
import * as tf from '@tensorflow/tfjs';
import { elementCountOf } from '../../util/shape.ts';
import type { WebGpuBackend } from '../backend.ts';
import {
  FLAT_WORKGROUP_CODE,
  runGpuProgram,
  spreadWorkgroups,
  type BufferComponentCount,
  type GpuProgram,
} from '../program.ts';
import type { ElementwiseFactor } from './matMul/epilogue.ts';
import type { KernelArguments, TrainingOp } from './registry.ts';

const THREADS = 256;
/** Largest number of columns of a workgroup. With 64 columns, a warp reads consecutive numbers. */
const MOST_COLUMNS = 64;
/** Rows that a thread adds. With more rows, several workgroups share a column. */
const ROWS_PER_THREAD = 32;

/**
 * Sums each column of `x`. Only for kernels and gradients, on backends that have the kernel. It
 * has no gradient itself.
 *
 * @param x float32 [..., columns]
 * @param from, to the columns to sum are `from` to `to` - 1; by default all.
 * @returns float32 [to - from]
 */
export function columnSum(x: tf.Tensor, from = 0, to = x.shape.at(-1)!): tf.Tensor1D {
  return tf.engine().runKernel('ColumnSum', { x }, { from, to }) as tf.Tensor1D;
}

interface Columns {
  /** The first column; 0 by default. */
  from?: number;
  /** Number of columns; by default all. */
  count?: number;
  /** Multiplies the elements of `x`; has as many columns as `x`. */
  factor?: ElementwiseFactor | undefined;
}

/** Like {@link columnSum}, for kernels. */
export function runColumnSum(backend: WebGpuBackend, x: tf.TensorInfo, columns: Columns = {}): tf.TensorInfo {
  const { from = 0, count = x.shape.at(-1)!, factor } = columns;
  // WebGPU cannot bind an empty buffer.
  if (elementCountOf(x.shape) === 0) return backend.makeTensorInfo([count], 'float32', new Float32Array(count));
  let sums = sumChunks(backend, x, { from, count, factor });
  while (sums.shape[0]! > 1) {
    const chunks = sums;
    sums = sumChunks(backend, chunks, { from: 0, count });
    backend.disposeData(chunks.dataId);
  }
  return { ...sums, shape: [count] };
}

/** Sums the columns of each chunk of rows. The result has the shape [chunks, count]. */
function sumChunks(
  backend: WebGpuBackend,
  x: tf.TensorInfo,
  { from, count, factor }: Columns & { from: number; count: number },
): tf.TensorInfo {
  const stride = x.shape.at(-1)!;
  const rows = elementCountOf(x.shape) / stride;
  const components: BufferComponentCount = [stride, from, count].every((length) => length % 4 === 0) ? 4 : 1;
  let width = 8 / components;
  while (width < Math.min(count, MOST_COLUMNS) / components) width *= 2;
  const chunks = Math.ceil(rows / rowsPerChunk(width));
  const program: GpuProgram = {
    key: ['columnSum', components, width, factor ? 'factor' : '', factor?.isGate ? 'gate' : ''].join('_'),
    inputs: { x: components, ...(factor && { factor: components }) },
    outputComponents: components,
    // Columns are counted in elements of x, which have one or four components.
    uniforms: {
      rows: { type: 'i32', value: rows },
      stride: { type: 'i32', value: stride / components },
      start: { type: 'i32', value: from / components },
      count: { type: 'i32', value: count / components },
      chunks: { type: 'i32', value: chunks },
      sharedBy: { type: 'i32', value: factor?.sharedBy ?? 1 },
    },
    workgroupSize: [THREADS, 1, 1],
    dispatch: spreadWorkgroups(backend, chunks * Math.ceil(count / components / width)),
    code: () => codeOf(components, width, factor),
  };
  return runGpuProgram(backend, program, factor ? [x, factor.tensor] : [x], [chunks, count]);
}

function rowsPerChunk(width: number): number {
  return (THREADS / width) * ROWS_PER_THREAD;
}

/**
 * A workgroup has `width` columns and THREADS / width lanes. Lane i sums the rows i, i + lanes, ...
 * of its chunk, and a tree adds the lanes.
 */
function codeOf(components: BufferComponentCount, width: number, factor: ElementwiseFactor | undefined): string {
  const lanes = THREADS / width;
  const other = 'factor[row / uniforms.sharedBy * uniforms.stride + read]';
  const multiplied = factor?.isGate ? `select(Element(), value, ${other} > Element())` : `value * ${other}`;
  return `
alias Element = ${components === 4 ? 'vec4<f32>' : 'f32'};
var<workgroup> partial: array<Element, ${THREADS}>;
${FLAT_WORKGROUP_CODE}
fn main() {
  let tiles = (uniforms.count + ${width - 1}) / ${width};
  // Workgroups after the last chunk compute the last chunk too, because WGSL rejects barriers after
  // a return.
  let chunk = min(flatWorkgroup() / tiles, uniforms.chunks - 1);
  let column = (flatWorkgroup() % tiles) * ${width} + i32(localIndex % ${width}u);
  let read = uniforms.start + column;
  let end = min((chunk + 1) * ${rowsPerChunk(width)}, uniforms.rows);
  var sum = Element();
  if (column < uniforms.count) {
    for (var row = chunk * ${rowsPerChunk(width)} + i32(localIndex / ${width}u); row < end; row += ${lanes}) {
      let value = x[row * uniforms.stride + read];
      sum += ${factor ? multiplied : 'value'};
    }
  }
  partial[localIndex] = sum;
  for (var half = ${THREADS / 2}u; half >= ${width}u; half /= 2u) {
    workgroupBarrier();
    if (localIndex < half) { partial[localIndex] += partial[localIndex + half]; }
  }
  if (localIndex < ${width}u && column < uniforms.count) {
    result[chunk * uniforms.count + column] = partial[localIndex];
  }
}
`;
}

export const columnSumOp: TrainingOp = {
  kernelName: 'ColumnSum',
  run: ({ inputs, attrs, backend }: KernelArguments<tf.NamedAttrMap>) => {
    const [from, to] = [attrs['from'] as number, attrs['to'] as number];
    return runColumnSum(backend, inputs['x']!, { from, count: to - from });
  },
};
