/** Programs of causal attention that compute the result, or statistics of its rows. */
import {
  addProductCode,
  declareSumsCode,
  repeatCodeForChunks,
  ATTENTION_KEY_ROWS,
  multiplyRowsCode,
  attentionPrologueCode,
  ATTENTION_QUERY_ROWS,
  storeRowsCode,
  ATTENTION_TILE_ROWS,
  ATTENTION_VALUE_ROWS,
  type AttentionTiles,
} from './tiles.ts';

/**
 * Later tiles of queries visit more keys. They start first, so that no long workgroup runs last and
 * alone.
 */
const LATEST_FIRST = attentionPrologueCode('tiles - 1u - nth');

/**
 * Code that sets `s` to exp(score - largest) for the 4 queries and the 4 keys of a tile that belong
 * to the thread. `largest` is the largest score of each query so far. `sum` is the sum of these
 * exponentials over all tiles so far; each of the 8 threads of a row has a part of the sum.
 */
const onlineSoftmax = (tiles: AttentionTiles): string => `
    var s = mat4x4<f32>();
    ${multiplyRowsCode('s', [ATTENTION_QUERY_ROWS, `tile * ${ATTENTION_TILE_ROWS}u`], [ATTENTION_KEY_ROWS, `other * ${ATTENTION_TILE_ROWS}u`], tiles)}
    for (var j = 0u; j < 4u; j++) {
      s[j] = visibleScores(s[j], ownRows, vec4<u32>(other * ${ATTENTION_TILE_ROWS}u + column + j * 8u));
    }
    let before = largest;
    largest = rowMax(row, column, max(before, max(max(s[0], s[1]), max(s[2], s[3]))));
    let shrink = exp(before - largest);
    for (var j = 0u; j < 4u; j++) { s[j] = exp(s[j] - largest); }
    sum = sum * shrink + ((s[0] + s[1]) + (s[2] + s[3]));`;

/** Reads qkv, writes y. */
export const attentionForwardCode = (tiles: AttentionTiles): string => `
${tiles.declarations}
fn main() {
  ${LATEST_FIRST}
  var largest = vec4<f32>(LOWEST);
  var sum = vec4<f32>(0.0);
  ${declareSumsCode('y', tiles)}
  for (var other = 0u; other <= tile; other++) {
    ${onlineSoftmax(tiles)}
    storeScores(row, column, s);
    ${repeatCodeForChunks(
      tiles.chunks,
      (chunk) => `
    for (var i = 0u; i < 4u; i++) { y${chunk}[i] *= shrink[i]; }`,
    )}
    ${addProductCode('y', ATTENTION_VALUE_ROWS, `other * ${ATTENTION_TILE_ROWS}u`, tiles)}
  }
  let total = rowSum(row, column, sum);
  ${storeRowsCode('y', { start: 'outputAt', stride: 'width4' }, '(1.0 / total[i])', tiles)}
}
`;

/**
 * Reads qkv, y and dy. Writes two values for each query of each sequence: the logarithm of the sum
 * of exp(score), and the dot product of y and dy, which is the sum of the products of probabilities
 * and their gradients.
 */
export const attentionStatisticsCode = (tiles: AttentionTiles): string => `
${tiles.declarations}
fn main() {
  ${LATEST_FIRST}
  var largest = vec4<f32>(LOWEST);
  var sum = vec4<f32>(0.0);
  for (var other = 0u; other <= tile; other++) {
    ${onlineSoftmax(tiles)}
  }
  // The sums below overwrite the memory from which the last maxima are read.
  workgroupBarrier();
  let logSum = largest + log(rowSum(row, column, sum));
  var products = vec4<f32>(0.0);
  for (var i = 0u; i < 4u; i++) {
    let at = outputAt + min(ownRows[i], context - 1u) * width4;
    for (var d = column; d < DEPTH4; d += 8u) { products[i] += dot(y[at + d], dy[at + d]); }
  }
  workgroupBarrier();
  let product = rowSum(row, column, products);
  if (column == 0u) {
    for (var i = 0u; i < 4u; i++) {
      if (ownRows[i] < context) {
        result[sequence * context + ownRows[i]] = vec2<f32>(logSum[i], product[i]);
      }
    }
  }
}
`;
