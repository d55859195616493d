/**
 * The code of a matrix product whose workgroups share tiles. A workgroup loads tiles of both
 * matrices into workgroup memory, and each thread multiplies 4 or 8 rows by 4 columns in registers,
 * which loads each element once for many multiplications (Volkov and Demmel, "Benchmarking GPUs to
 * tune dense linear algebra", 2008).
 *
 * Both tiles have the inner dimension first, so that a thread reads 4 rows, or 4 columns, as one
 * vec4. A matrix that is stored the other way is transposed in blocks of 4 x 4 while it is loaded.
 */
import type { MatMulTile } from './plan.ts';
import { tilePlaceCode } from './tilePlace.ts';

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

/** The function `main` of a product. It needs the functions `load_a`, `load_b` and `store`. */
export function tiledMainCode(tile: MatMulTile, isTransposedA: boolean, isTransposedB: boolean): string {
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
  ${tilePlaceCode('flatWorkgroup()', tile.outer)}
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
  var all = array<vec4<f32>, ${sums.length}>(${sums.map(({ name }) => name).join(', ')});
  for (var i = 0; i < ${sums.length}; i++) {
    let row = aStart + 4 * (y + i / 4 * ${apart}) + i % 4;
    if (row < uniforms.rows && column < uniforms.columns) { store(all[i], above + row, column); }
  }
}
`;
}
