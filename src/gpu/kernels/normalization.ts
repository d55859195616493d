/**
 * Parts of kernels that normalize each row of x by statistics of the row, and then multiply it by a
 * scale: RMS and layer normalization.
 *
 * Kernels of gradients compute the statistics again: they read x anyway, and so the forward pass
 * needs only one output.
 */
import type * as tf from '@tensorflow/tfjs';
import { elementCountOf } from '../../util/shape.ts';
import { runGpuProgram, spreadWorkgroups, type GpuProgram } from '../program.ts';
import type { KernelArguments } from './registry.ts';
import {
  loadWidthOf,
  elementCode,
  rowLayoutCode,
  rowDispatch,
  chooseRowThreadLayout,
  type RowThreadLayout,
} from './rows.ts';

export type NormArguments = KernelArguments<tf.NamedAttrMap>;

/** A kind of normalization. */
export interface RowNormalization {
  /** Prefix of the keys of its programs. */
  name: string;
  /**
   * WGSL type `Statistics`, and functions: `statisticsOf(start: i32) -> Statistics` of the row that
   * begins at `x[start]`, and `normalized(value: Element, row: Statistics) -> Element`.
   * `statisticsOf` may contain barriers. The code may read the uniforms `rows`, `columns` (elements
   * of a row), `channels` (as f32) and `epsilon`.
   */
  code: (layout: RowThreadLayout) => string;
}

/** A program of a {@link RowNormalization}. */
export interface RowNormalizationProgram {
  key: string;
  /** Inputs that the code reads. Their elements have as many components as those of x. */
  names: readonly string[];
  /** Code that follows the norm's code. */
  code: (layout: RowThreadLayout) => string;
}

/** Runs a program whose threads share rows, and which computes a tensor of the shape of x. */
export function runNormalizationProgram(
  norm: RowNormalization,
  { key, names, code }: RowNormalizationProgram,
  args: NormArguments,
): tf.TensorInfo {
  const { inputs, backend } = args;
  const { program, layout, shared } = describe(norm, names, args);
  const tensors = names.map((name) => inputs[name]!);
  const all = { ...program, key: `${key} ${program.key}`, code: () => shared() + code(layout) };
  return runGpuProgram(backend, all, tensors, inputs['x']!.shape);
}

/** Computes `normalized(x) * scale`, plus `offset` if this input is given. */
export function runRowNormalization(norm: RowNormalization, args: NormArguments): tf.TensorInfo {
  const names = ['x', 'scale', 'offset'].filter((name) => name in args.inputs);
  const code = `
fn main() {
  let start = rowIndex() * uniforms.columns;
  let row = statisticsOf(start);
  for (var i = lane(); i < uniforms.columns; i += LANES) {
    result[start + i] = normalized(x[start + i], row) * scale[i]${names.includes('offset') ? ' + offset[i]' : ''};
  }
}
`;
  return runNormalizationProgram(norm, { key: norm.name, names, code: () => code }, args);
}

/** Number of rows for which one workgroup sums the gradient of the scale. */
const BLOCK = 16;

/**
 * Sums one block of rows. First, threads share rows to compute statistics. Then each thread sums
 * whole columns.
 */
const SCALE_GRADIENT = `
var<workgroup> statistics: array<Statistics, ${BLOCK}>;
fn main() {
  let block = min(flatWorkgroup(), uniforms.blocks - 1);
  let first = block * ${BLOCK};
  for (var next = 0; next < ${BLOCK}; next += ROWS_AT_ONCE) {
    let own = next + i32(localIndex) / LANES;
    statistics[own] = statisticsOf(min(first + own, uniforms.rows - 1) * uniforms.columns);
    workgroupBarrier();
  }
  let rows = min(${BLOCK}, uniforms.rows - first);
  for (var i = i32(localIndex); i < uniforms.columns; i += THREADS) {
    var sum = Element();
    for (var own = 0; own < rows; own++) {
      let at = (first + own) * uniforms.columns + i;
      sum += dy[at] * normalized(x[at], statistics[own]);
    }
    result[block * uniforms.columns + i] = sum;
  }
}
`;

/**
 * Computes the gradient of the scale from the inputs x and dy.
 *
 * @returns float32 [blocks, channels], whose sum over the blocks is the gradient.
 */
export function partialScaleGradient(norm: RowNormalization, args: NormArguments): tf.TensorInfo {
  const { inputs, backend } = args;
  const { program, rows, channels, shared } = describe(norm, ['x', 'dy'], args);
  const blocks = Math.ceil(rows / BLOCK);
  const all: GpuProgram = {
    ...program,
    key: `${norm.name}ScaleGradient ${program.key}`,
    uniforms: { ...program.uniforms, blocks: { type: 'i32', value: blocks } },
    dispatch: spreadWorkgroups(backend, blocks),
    code: () => shared() + SCALE_GRADIENT,
  };
  return runGpuProgram(backend, all, [inputs['x']!, inputs['dy']!], [blocks, channels]);
}

/** Returns the common parts of a norm's programs. `shared` is the code that they begin with. */
function describe(norm: RowNormalization, names: readonly string[], { inputs, attrs, backend }: NormArguments) {
  const { shape } = inputs['x']!;
  const channels = shape.at(-1)!;
  const rows = elementCountOf(shape) / channels;
  const components = loadWidthOf(channels);
  const columns = channels / components;
  const layout = chooseRowThreadLayout(backend, columns);
  const program = {
    key: `${components} ${layout.lanes}`,
    inputs: Object.fromEntries(names.map((name) => [name, components])),
    outputComponents: components,
    uniforms: {
      rows: { type: 'i32', value: rows },
      columns: { type: 'i32', value: columns },
      channels: { type: 'f32', value: channels },
      epsilon: { type: 'f32', value: attrs['epsilon'] as number },
    },
    ...rowDispatch(backend, rows, layout),
  } satisfies Partial<GpuProgram>;
  return {
    rows,
    channels,
    layout,
    program,
    shared: (): string => elementCode(components) + rowLayoutCode(layout) + norm.code(layout),
  };
}
