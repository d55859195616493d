/**
 * Matrix products. A workgroup computes a tile of the result: it loads tiles of both matrices into
 * workgroup memory, and each thread multiplies 4 or 8 rows by 4 columns in registers, which loads
 * each element once for many multiplications (Volkov and Demmel, "Benchmarking GPUs to tune dense
 * linear algebra", 2008).
 *
 * Both tiles have the inner dimension first, so that a thread reads 4 rows, or 4 columns, as one
 * vec4. A matrix that is stored the other way is transposed in blocks of 4 x 4 while it is loaded.
 */
import type { TensorInfo } from '@tensorflow/tfjs';
import type { WebGpuBackend } from '../../backend.ts';
import { computesInSoftware } from '../../../util/gpuAdapter.ts';
import {
  FLAT_WORKGROUP_CODE,
  runGpuProgram,
  spreadWorkgroups,
  type ComponentCount,
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
import { DIRECT, directMainCode } from './direct.ts';
import { matMulPlanOf, type MatMulLengths, type MatMulPlan, type MatMulTile } from './plan.ts';
import { sumProductParts } from './sumProductParts.ts';

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
  const { outer, threads, tilesPerWorkgroup } = tile ?? DIRECT;
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
    dispatch: spreadWorkgroups(backend, Math.ceil(tiles / tilesPerWorkgroup)),
    code: () =>
      [
        FLAT_WORKGROUP_CODE,
        left.code(),
        right.code(),
        epilogue.code(),
        isHalf ? HALF : FULL,
        tile === null
          ? directMainCode({ ...a, hasFours: left.components === 4 }, { ...b, hasFours: right.components === 4 })
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
  components: ComponentCount;
  inputs: Record<string, ComponentCount>;
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

/**
 * WGSL that stores a block of 4 x 4 elements in the tile of `name`, inner dimension first. It has
 * loops instead of repeated code: drivers compile loops in less time, and then unroll them.
 */
function storeBlock(name: 'a' | 'b', tile: MatMulTile, isInnerFirst: boolean, thread: string): string {
  const across = tile.outer / 4;
  return `
    let block = ${thread};
    let x = block % ${across};
    let y = block / ${across} * 4;
    let outer = ${name}Start + 4 * x;
    let inner = step + y;
    ${
      isInnerFirst
        ? `for (var i = 0; i < 4; i++) { ${name}Tile[(y + i) * ${across} + x] = toFour(load_${name}(${name}First, inner + i, outer)); }`
        : `var rows: mat4x4<f32>;
    for (var i = 0; i < 4; i++) { rows[i] = load_${name}(${name}First, outer + i, inner); }
    let columns = transpose(rows);
    for (var i = 0; i < 4; i++) { ${name}Tile[(y + i) * ${across} + x] = toFour(columns[i]); }`
    }`;
}

/** The type of four numbers of a tile, with conversions to and from it. */
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

function tiledMainCode(tile: MatMulTile, isTransposedA: boolean, isTransposedB: boolean): string {
  const across = tile.outer / 4;
  const blocks = across * (tile.inner / 4);
  // The rows of a thread are groups of 4 that lie this many groups apart, so that the vec4s that
  // neighbouring threads read are neighbours too.
  const groups = Array.from({ length: tile.threadRows / 4 }, (_, i) => i);
  const apart = across / groups.length;
  const sums = groups.flatMap((group) => [0, 1, 2, 3].map((i) => ({ group, i, name: `sum${group * 4 + i}` })));
  return `
var<workgroup> aTile: array<Four, ${tile.inner * across}>;
var<workgroup> bTile: array<Four, ${tile.inner * across}>;

fn main() {
  // Workgroups after the last one compute its tile too: WGSL rejects barriers after a return.
  var rest = min(flatWorkgroup(), uniforms.tiles - 1);
  let bStart = rest % uniforms.tilesAcross * ${tile.outer};
  rest /= uniforms.tilesAcross;
  let aStart = rest % uniforms.tilesDown * ${tile.outer};
  rest /= uniforms.tilesDown;
  let batch = rest % uniforms.batches;
  let aFirst = batch % uniforms.aBatches * uniforms.aHeight;
  let bFirst = batch % uniforms.bBatches * uniforms.bHeight;
  let start = rest / uniforms.batches * uniforms.partLength;
  let thread = i32(localIndex);
  let x = thread % ${across};
  let y = thread / ${across};
  ${sums.map(({ name }) => `var ${name} = vec4<f32>();`).join('\n  ')}
  for (var done = 0; done < uniforms.partLength; done += ${tile.inner}) {
    let step = start + done;
    if (thread < ${blocks}) {${storeBlock('a', tile, isTransposedA, 'thread')}
    } else {${storeBlock('b', tile, !isTransposedB, `thread - ${blocks}`)}
    }
    workgroupBarrier();
    for (var k = 0; k < ${tile.inner * across}; k += ${across}) {
      let b = fromFour(bTile[k + x]);
      ${groups.map((group) => `let a${group} = fromFour(aTile[k + y + ${group * apart}]);`).join('\n      ')}
      ${sums.map(({ name, group, i }) => `${name} += a${group}[${i}] * b;`).join('\n      ')}
    }
    workgroupBarrier();
  }
  let column = bStart + 4 * x;
  // Parts are stored one after another, like batches.
  let above = rest * uniforms.rows;
  var all = array<vec4<f32>, ${sums.length}>(${sums.map(({ name }) => name).join(', ')});
  for (var i = 0; i < ${sums.length}; i++) {
    let row = aStart + 4 * (y + i / 4 * ${apart}) + i % 4;
    if (row < uniforms.rows && column < uniforms.columns) { store(all[i], above + row, column); }
  }
}
`;
}
