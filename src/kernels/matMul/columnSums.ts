/** Sums the rows of a matrix in a fixed order: the gradient of a bias. */
import type { TensorInfo } from '@tensorflow/tfjs';
import type { Backend } from '../../webgpu/backend.ts';
import { FLAT_WORKGROUP, runProgram, spread, type Components, type Program } from '../../webgpu/program.ts';
import { four, multiplied, type Factor } from './epilogue.ts';

/** Threads next to each other, which read elements next to each other: 4 columns each. */
const ACROSS = 8;
/** Threads that sum the same columns. */
const DOWN = 16;

/**
 * @param matrix [rows, columns]
 * @param factor multiplies the matrix.
 * @returns a new tensor [columns]
 */
export function columnSums(
  backend: Backend,
  matrix: TensorInfo,
  rows: number,
  columns: number,
  factor?: Factor,
): TensorInfo {
  const components: Components = columns % 4 === 0 ? 4 : 1;
  const values = four('matrix', 'row * uniforms.columns + column', components);
  const at = 'row / uniforms.sharedBy * uniforms.columns + column';
  const isGate = factor?.isGate === true;
  const program: Program = {
    key: ['columnSums', components, factor !== undefined, isGate].join('_'),
    inputs: { matrix: components, ...(factor && { factor: components }) },
    outputComponents: components,
    uniforms: {
      rows: { type: 'i32', value: rows },
      columns: { type: 'i32', value: columns },
      sharedBy: { type: 'i32', value: factor?.sharedBy ?? 1 },
    },
    workgroupSize: [ACROSS, DOWN, 1],
    dispatch: spread(backend, Math.ceil(columns / (4 * ACROSS))),
    code: `
${FLAT_WORKGROUP}
var<workgroup> partial: array<vec4<f32>, ${ACROSS * DOWN}>;

fn main() {
  let column = 4 * (flatWorkgroup() * ${ACROSS} + i32(localId.x));
  var sum = vec4<f32>();
  if (column < uniforms.columns) {
    for (var row = i32(localId.y); row < uniforms.rows; row += ${DOWN}) {
      sum += ${factor ? multiplied(values, 'factor', at, isGate, components) : values};
    }
  }
  partial[localIndex] = sum;
  for (var half = ${DOWN / 2}u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (localId.y < half) { partial[localIndex] += partial[localIndex + half * ${ACROSS}]; }
  }
  if (localId.y > 0u || column >= uniforms.columns) { return; }
  let total = partial[localIndex];
  ${
    components === 4
      ? 'result[column / 4] = total;'
      : [0, 1, 2, 3]
          .map((i) => `if (column + ${i} < uniforms.columns) { result[column + ${i}] = total[${i}]; }`)
          .join('\n  ')
  }
}
`,
  };
  return runProgram(backend, program, factor ? [matrix, factor.tensor] : [matrix], [columns]);
}
