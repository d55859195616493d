/**
 * Runs matrix products. Workgroups share tiles of the matrices (`tiled.ts`), or each thread reads
 * its elements itself (`direct.ts`).
 */
import type { TensorInfo } from '@tensorflow/tfjs';
import type { WebGpuBackend } from '../../backend.ts';
import { computesInSoftware } from '../../../util/gpuAdapter.ts';
import {
  FLAT_WORKGROUP_CODE,
  runGpuProgram,
  spreadWorkgroups,
  type BufferComponentCount,
  type GpuProgram,
} from '../../program.ts';
import { loadWidthOf } from '../rows.ts';
import {
  matMulEpilogueCode,
  fourElementsCode,
  multipliedElementsCode,
  type MatMulEpilogue,
  type ElementwiseFactor,
} from './epilogue.ts';
import { DIRECT_MATMUL_TILE, directMatMulMainCode } from './direct.ts';
import { matMulPlanOf, type MatMulLengths, type MatMulPlan, type MatMulTile } from './plan.ts';
import { sumProductParts } from './sumProductParts.ts';
import { tiledMainCode } from './tiled.ts';

/** A matrix, or several as [batches, ...], in row-major order. */
export interface MatMulOperand {
  tensor: TensorInfo;
  /** Whether it is stored transposed: A as [inner, rows], B as [columns, inner]. */
  isTransposed: boolean;
  /** Number of matrices; batch i uses matrix i modulo this number. */
  batches: number;
  /** Multiplies the matrix in the layout in which it is stored. */
  factor?: ElementwiseFactor | undefined;
}

export interface MatMulProduct extends MatMulLengths {
  a: MatMulOperand;
  b: MatMulOperand;
  epilogue: MatMulEpilogue;
  /**
   * Whether both matrices are rounded to float16. An element above 65 504 becomes infinite, so that
   * loss scaling notices it. Products and sums stay in float32, as in tensor cores: the product of
   * two float16 numbers has 22 bits, and may be larger than 65 504.
   */
  isHalf: boolean;
}

/**
 * Computes `epilogue(A . B)` in one dispatch, or in two if the inner length is much longer than the
 * result.
 *
 * @returns a new tensor of `shape`, which has `batches * rows * columns` elements.
 */
export function runMatMul(backend: WebGpuBackend, product: MatMulProduct, shape: readonly number[]): TensorInfo {
  const plan = matMulPlanOf(product, computesInSoftware(backend.device));
  if (plan.parts === 1) return runPlan(backend, product, plan, shape);
  const { batches, rows, columns } = product;
  const parts = runPlan(backend, { ...product, epilogue: {} }, plan, [plan.parts, batches, rows, columns]);
  const result = sumProductParts(backend, parts, columns, product.epilogue, shape);
  backend.disposeData(parts.dataId);
  return result;
}

function runPlan(
  backend: WebGpuBackend,
  product: MatMulProduct,
  plan: MatMulPlan,
  shape: readonly number[],
): TensorInfo {
  const { a, b, batches, rows, columns, inner, isHalf } = product;
  const { tile, parts, partLength } = plan;
  const epilogue = matMulEpilogueCode(product.epilogue, columns);
  const { outer, threads } = tile ?? DIRECT_MATMUL_TILE;
  const left = loader('a', a, a.isTransposed ? [inner, rows] : [rows, inner], paddingOf(tile, inner, a.isTransposed));
  const right = loader(
    'b',
    b,
    b.isTransposed ? [columns, inner] : [inner, columns],
    paddingOf(tile, inner, !b.isTransposed),
  );
  const tilesDown = Math.ceil(rows / outer);
  const tilesAcross = Math.ceil(columns / outer);
  const tiles = parts * batches * tilesDown * tilesAcross;
  const ints = { rows, columns, inner, batches, tilesDown, tilesAcross, tiles, partLength };
  const program: GpuProgram = {
    key: ['product', isHalf ? 'f16' : 'f32', outer, left.key, right.key, epilogue.key].join('_'),
    inputs: { ...left.inputs, ...right.inputs, ...epilogue.inputs },
    outputComponents: loadWidthOf(columns),
    uniforms: { ...int32(ints), ...left.uniforms, ...right.uniforms, ...epilogue.uniforms },
    workgroupSize: [threads, 1, 1],
    dispatch: spreadWorkgroups(backend, tile === null ? Math.ceil(tiles / threads) : tiles),
    code: () =>
      [
        FLAT_WORKGROUP_CODE,
        left.code(),
        right.code(),
        epilogue.code(),
        isHalf ? HALF : FULL,
        tile === null
          ? directMatMulMainCode(
              { isTransposed: a.isTransposed, hasFours: left.components === 4 },
              { isTransposed: b.isTransposed, hasFours: right.components === 4 },
            )
          : tiledMainCode(tile, a.isTransposed, b.isTransposed),
      ].join('\n'),
  };
  return runGpuProgram(backend, program, [...left.tensors, ...right.tensors, ...epilogue.tensors], shape);
}

function int32(values: Record<string, number>): NonNullable<GpuProgram['uniforms']> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { type: 'i32', value }]));
}

interface Loader {
  key: string;
  components: BufferComponentCount;
  inputs: Record<string, BufferComponentCount>;
  tensors: TensorInfo[];
  uniforms: NonNullable<GpuProgram['uniforms']>;
  /**
   * Defines `load_x(first, row, column)` for 4 elements of a stored row. `first` is the number of
   * rows that precede this matrix in the tensor. Without padding, the values outside the matrix are
   * undefined.
   */
  code: () => string;
}

/** Whether elements after the last row, and after the last column, are read as 0. */
interface Padding {
  isRowPadded: boolean;
  isColumnPadded: boolean;
}

/**
 * The sums of a direct product contain no elements outside the matrices except those that fill up
 * the inner length to a multiple of 4.
 */
function paddingOf(tile: MatMulTile | null, inner: number, isInnerFirst: boolean): Padding {
  if (tile !== null) return { isRowPadded: true, isColumnPadded: true };
  const isRagged = inner % 4 !== 0;
  return { isRowPadded: isRagged && isInnerFirst, isColumnPadded: isRagged && !isInnerFirst };
}

function loader(
  name: 'a' | 'b',
  { tensor, isTransposed, factor, batches }: MatMulOperand,
  [height, width]: [number, number],
  padding: Padding,
): Loader {
  const components = loadWidthOf(width);
  const size = { [`${name}Height`]: height, [`${name}Width`]: width, [`${name}Batches`]: batches };
  const uniforms = int32(factor ? { ...size, [`${name}SharedBy`]: factor.sharedBy } : size);
  const gate = factor?.isGate ? 'gate' : 'factor';
  const { isRowPadded, isColumnPadded } = padding;
  return {
    components,
    key: [components, isTransposed, factor ? gate : '', isRowPadded, isColumnPadded].join('-'),
    inputs: { [name]: components, ...(factor && { [`${name}Factor`]: components }) },
    tensors: factor ? [tensor, factor.tensor] : [tensor],
    uniforms,
    code: () => {
      let values = fourElementsCode(name, 'at', components);
      if (factor) {
        const at = `row / uniforms.${name}SharedBy * uniforms.${name}Width + column`;
        values = multipliedElementsCode(values, `${name}Factor`, at, factor.isGate === true, components);
      }
      return `
fn load_${name}(first: i32, row: i32, column: i32) -> vec4<f32> {
  let width = uniforms.${name}Width;
  ${isRowPadded ? `if (row >= uniforms.${name}Height) { return vec4<f32>(); }` : ''}
  ${isColumnPadded ? 'if (column >= width) { return vec4<f32>(); }' : ''}
  let at = (first + row) * width + column;
  let values = ${values};
  return ${isColumnPadded && components !== 4 ? 'select(vec4<f32>(), values, vec4<i32>(column) + vec4<i32>(0, 1, 2, 3) < vec4<i32>(width))' : 'values'};
}
`;
    },
  };
}

/** The type of four numbers that are multiplied, with conversions to and from it. */
const FULL = `
alias Four = vec4<f32>;
fn toFour(v: vec4<f32>) -> Four { return v; }
fn fromFour(v: Four) -> vec4<f32> { return v; }
`;

/**
 * The same type in float16, with two numbers in each u32. For numbers above the largest float16,
 * WGSL lets implementations return either infinity or the largest float16, 65 504 (as bits of
 * float32: 0x477fe000). Loss scaling needs infinity, so the code sets the bits of infinity itself.
 * It does so for NaN, too.
 */
const HALF = `
alias Four = vec2<u32>;
fn toFour(v: vec4<f32>) -> Four {
  let isLarge = (bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x477fe000u);
  let small = select(v, vec4<f32>(), isLarge);
  let infinities = select(vec4<u32>(), vec4<u32>(0x7c00u, 0x7c000000u, 0x7c00u, 0x7c000000u), isLarge);
  return Four(pack2x16float(small.xy), pack2x16float(small.zw)) | infinities.xz | infinities.yw;
}
fn fromFour(v: Four) -> vec4<f32> { return vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y)); }
`;
