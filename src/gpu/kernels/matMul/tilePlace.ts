/**
 * WGSL at the start of `main` that finds the tile of the result to compute: its first row `aStart`
 * and column `bStart`, the rows `aFirst` and `bFirst` that precede its matrices in the tensors, and
 * where its part of the inner length starts. The rows of the result that precede those of its
 * matrix are `above`: parts are stored one after another, like batches.
 *
 * @param index expression: the tile's index. After the last tile, the last one is computed again,
 *   because WGSL rejects barriers after a return.
 * @param side rows of a tile, and also its columns.
 */
export const tilePlaceCode = (index: string, side: number): string => `
  var rest = min(${index}, uniforms.tiles - 1);
  let bStart = rest % uniforms.tilesAcross * ${side};
  rest /= uniforms.tilesAcross;
  let aStart = rest % uniforms.tilesDown * ${side};
  rest /= uniforms.tilesDown;
  let batch = rest % uniforms.batches;
  let aFirst = batch % uniforms.aBatches * uniforms.aHeight;
  let bFirst = batch % uniforms.bBatches * uniforms.bHeight;
  let start = rest / uniforms.batches * uniforms.partLength;
  let above = rest * uniforms.rows;`;
