/**
 * The code of a matrix product without workgroup memory: each thread reads the elements that it
 * multiplies. An adapter that computes in software has no memory that is faster for a workgroup,
 * and every barrier costs it as much as many multiplications.
 */
import { tilePlaceCode } from './tilePlace.ts';

/**
 * A tile is the 8 x 8 elements of the result that a thread computes. A workgroup has few threads,
 * so that a small result has a workgroup for each core.
 */
export const DIRECT_MATMUL_TILE = { outer: 8, threads: 16 };

/** Indices of the groups of 4 rows, or 4 columns, of a thread. */
const GROUPS = [0, 4];
const FOUR = [0, 1, 2, 3];

/**
 * WGSL that defines `{name}{k}_{group}`: element `k` of the inner length, of 4 rows or columns.
 *
 * @param isLoop whether the 8 loads are a loop, so that their code is compiled once.
 */
function loadFours(name: 'a' | 'b', isInnerFirst: boolean, isLoop: boolean): string {
  const load = (i: string): string => {
    const at = isInnerFirst ? `step + ${i} / 2, ${name}Start + ${i} % 2 * 4` : `${name}Start + ${i}, step`;
    return `fromFour(toFour(load_${name}(${name}First, ${at})))`;
  };
  const loaded = (i: number): string => (isLoop ? `${name}Loaded[${i}]` : `${name}Loaded${i}`);
  const loads = isLoop
    ? `var ${name}Loaded: array<vec4<f32>, 8>;
    for (var i = 0; i < 8; i++) { ${name}Loaded[i] = ${load('i')}; }`
    : Array.from({ length: 8 }, (_, i) => `let ${name}Loaded${i} = ${load(`${i}`)};`).join('\n    ');
  const fours = GROUPS.map((group) =>
    isInnerFirst
      ? FOUR.map((k) => `let ${name}${k}_${group} = ${loaded(2 * k + group / 4)};`).join('\n    ')
      : `let ${name}_${group} = transpose(mat4x4<f32>(${FOUR.map((i) => loaded(group + i)).join(', ')}));
    ${FOUR.map((k) => `let ${name}${k}_${group} = ${name}_${group}[${k}];`).join('\n    ')}`,
  );
  return [loads, ...fours].join('\n    ');
}

interface DirectOperand {
  isTransposed: boolean;
  /** Whether its rows have a multiple of 4 elements, so that a load is short. */
  hasFours: boolean;
}

/** The function `main` of a product. It needs the functions `load_a`, `load_b` and `store`. */
export function directMatMulMainCode(a: DirectOperand, b: DirectOperand): string {
  const sums = GROUPS.flatMap((group) =>
    FOUR.flatMap((i) => GROUPS.map((across) => ({ group, i, across, name: `sum${group + i}_${across}` }))),
  );
  return `
fn main() {
  ${tilePlaceCode(`flatWorkgroup() * ${DIRECT_MATMUL_TILE.threads} + i32(localIndex)`, DIRECT_MATMUL_TILE.outer)}
  let end = min(start + uniforms.partLength, uniforms.inner);
  ${sums.map(({ name }) => `var ${name} = vec4<f32>();`).join('\n  ')}
  for (var step = start; step < end; step += 4) {
    ${loadFours('a', a.isTransposed, !a.hasFours)}
    ${loadFours('b', !b.isTransposed, !b.hasFours)}
    ${FOUR.map((k) => sums.map(({ name, group, i, across }) => `${name} += a${k}_${group}[${i}] * b${k}_${across};`).join('\n    ')).join('\n    ')}
  }
  // A loop, so that the code of store() is compiled once.
  var all = array<vec4<f32>, ${sums.length}>(${sums.map(({ name }) => name).join(', ')});
  for (var i = 0; i < ${sums.length}; i++) {
    let row = aStart + i / 2;
    let column = bStart + i % 2 * 4;
    if (row < uniforms.rows && column < uniforms.columns) { store(all[i], above + row, column); }
  }
}
`;
}
