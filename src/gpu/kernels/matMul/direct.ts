/**
 * The code of a matrix product without workgroup memory: each thread reads the elements that it
 * multiplies. An adapter that computes in software has no memory that is faster for a workgroup,
 * and every barrier costs it as much as many multiplications.
 */

/** A tile is the 8 x 8 elements of the result that a thread computes. */
export const DIRECT = { outer: 8, threads: 16, tilesPerWorkgroup: 16 };

/** Indices of the groups of 4 rows, or 4 columns, of a thread. */
const GROUPS = [0, 4];
const FOUR = [0, 1, 2, 3];

/** WGSL that defines `{name}{k}_{group}`: element `k` of the inner length, of 4 rows or columns. */
function loadFour(name: 'a' | 'b', isInnerFirst: boolean): string {
  const load = (row: string, column: string): string =>
    `fromFour(toFour(load_${name}(${name}First, ${row}, ${column})))`;
  return GROUPS.map((group) =>
    isInnerFirst
      ? FOUR.map((k) => `let ${name}${k}_${group} = ${load(`step + ${k}`, `${name}Start + ${group}`)};`).join('\n    ')
      : `let ${name}_${group} = transpose(mat4x4<f32>(${FOUR.map((i) => load(`${name}Start + ${group + i}`, 'step')).join(', ')}));
    ${FOUR.map((k) => `let ${name}${k}_${group} = ${name}_${group}[${k}];`).join('\n    ')}`,
  ).join('\n    ');
}

/** The function `main` of a product. It needs the functions `load_a`, `load_b` and `store`. */
export function directMainCode(isTransposedA: boolean, isTransposedB: boolean): string {
  const sums = GROUPS.flatMap((group) =>
    FOUR.flatMap((i) => GROUPS.map((across) => ({ group, i, across, name: `sum${group + i}_${across}` }))),
  );
  return `
fn main() {
  var rest = flatWorkgroup() * ${DIRECT.threads} + i32(localIndex);
  if (rest >= uniforms.tiles) { return; }
  let bStart = rest % uniforms.tilesAcross * ${DIRECT.outer};
  rest /= uniforms.tilesAcross;
  let aStart = rest % uniforms.tilesDown * ${DIRECT.outer};
  rest /= uniforms.tilesDown;
  let batch = rest % uniforms.batches;
  let aFirst = batch % uniforms.aBatches * uniforms.aHeight;
  let bFirst = batch % uniforms.bBatches * uniforms.bHeight;
  let start = rest / uniforms.batches * uniforms.partLength;
  let end = min(start + uniforms.partLength, uniforms.inner);
  ${sums.map(({ name }) => `var ${name} = vec4<f32>();`).join('\n  ')}
  for (var step = start; step < end; step += 4) {
    ${loadFour('a', isTransposedA)}
    ${loadFour('b', !isTransposedB)}
    ${FOUR.map((k) => sums.map(({ name, group, i, across }) => `${name} += a${k}_${group}[${i}] * b${k}_${across};`).join('\n    ')).join('\n    ')}
  }
  let above = rest * uniforms.rows;
  ${sums.map(({ name, group, i, across }) => `if (aStart + ${group + i} < uniforms.rows && bStart + ${across} < uniforms.columns) { store(${name}, above + aStart + ${group + i}, bStart + ${across}); }`).join('\n  ')}
}
`;
}
