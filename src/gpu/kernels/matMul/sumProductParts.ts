/**
 * Sums the parts of a split matrix product in a fixed order. Atomic additions would have no fixed
 * order.
 */
import type { TensorInfo } from '@tensorflow/tfjs';
import { elementCountOf } from '../../../util/shape.ts';
import type { WebGpuBackend } from '../../backend.ts';
import { FLAT_WORKGROUP_CODE, runGpuProgram, spreadWorkgroups } from '../../program.ts';
import { loadWidthOf } from '../rows.ts';
import { matMulEpilogueCode, fourElementsCode, type MatMulEpilogue } from './epilogue.ts';

const THREADS = 64;

/**
 * @param parts [number of parts, ...shape of the product]
 * @param columns number of columns of the product
 * @returns a new tensor of `shape`
 */
export function sumProductParts(
  backend: WebGpuBackend,
  parts: TensorInfo,
  columns: number,
  epilogue: MatMulEpilogue,
  shape: readonly number[],
): TensorInfo {
  const components = loadWidthOf(columns);
  const { key, inputs, tensors, uniforms, code } = matMulEpilogueCode(epilogue, columns);
  const size = elementCountOf(shape);
  const across = Math.ceil(columns / 4);
  const program = {
    key: `sumParts_${key}`,
    inputs: { parts: components, ...inputs } as const,
    outputComponents: components,
    uniforms: {
      count: { type: 'i32', value: parts.shape[0]! },
      size: { type: 'i32', value: size },
      rows: { type: 'i32', value: size / columns },
      columns: { type: 'i32', value: columns },
      across: { type: 'i32', value: across },
      ...uniforms,
    },
    workgroupSize: [THREADS, 1, 1],
    dispatch: spreadWorkgroups(backend, Math.ceil(((size / columns) * across) / THREADS)),
    code: () => `
${FLAT_WORKGROUP_CODE}
${code()}
fn main() {
  let index = flatWorkgroup() * ${THREADS} + i32(localIndex);
  let row = index / uniforms.across;
  let column = 4 * (index % uniforms.across);
  if (row >= uniforms.rows) { return; }
  var sum = vec4<f32>();
  for (var part = 0; part < uniforms.count; part++) {
    let at = part * uniforms.size + row * uniforms.columns + column;
    sum += ${fourElementsCode('parts', 'at', components)};
  }
  store(sum, row, column);
}
`,
  } as const;
  return runGpuProgram(backend, program, [parts, ...tensors], shape);
}
