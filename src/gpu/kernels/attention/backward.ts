/**
 * Programs that compute the gradients of causal attention. With the probabilities P of a sequence
 * and the gradient dY of the result Y = P V, the gradients are
 *
 *     dV = P^T dY,  dS = P * (dY V^T - rowsum(dY * Y)),  dQ = dS K * scale,  dK = dS^T Q * scale.
 *
 * P is computed again from the scores and the logarithm of the sum of their exponentials.
 */
import {
  addProductCode,
  declareSumsCode,
  ATTENTION_GRADIENT_ROWS,
  ATTENTION_KEY_ROWS,
  multiplyRowsCode,
  attentionPrologueCode,
  ATTENTION_QUERY_ROWS,
  storeRowsCode,
  ATTENTION_TILE_ROWS,
  ATTENTION_VALUE_ROWS,
  type AttentionTiles,
} from './tiles.ts';

const OWN = `tile * ${ATTENTION_TILE_ROWS}u`;
const OTHER = `other * ${ATTENTION_TILE_ROWS}u`;

/**
 * Reads qkv, dy and statistics. Writes dQ: each workgroup owns a tile of queries, and visits all
 * keys before the tile's end.
 */
export const queriesGradientCode = (tiles: AttentionTiles): string => `
${tiles.declarations}
fn main() {
  ${attentionPrologueCode('tiles - 1u - nth')}
  var logSum = vec4<f32>();
  var product = vec4<f32>();
  for (var i = 0u; i < 4u; i++) {
    let own = statistics[sequence * context + min(ownRows[i], context - 1u)];
    logSum[i] = own.x;
    product[i] = own.y;
  }
  ${declareSumsCode('dq', tiles)}
  for (var other = 0u; other <= tile; other++) {
    var dp = mat4x4<f32>();
    ${multiplyRowsCode('dp', [ATTENTION_GRADIENT_ROWS, OWN], [ATTENTION_VALUE_ROWS, OTHER], tiles)}
    var s = mat4x4<f32>();
    ${multiplyRowsCode('s', [ATTENTION_QUERY_ROWS, OWN], [ATTENTION_KEY_ROWS, OTHER], tiles)}
    for (var j = 0u; j < 4u; j++) {
      let visible = visibleScores(s[j], ownRows, vec4<u32>(${OTHER} + column + j * 8u));
      s[j] = exp(visible - logSum) * (dp[j] - product);
    }
    workgroupBarrier();
    storeScores(row, column, s);
    ${addProductCode('dq', ATTENTION_KEY_ROWS, OTHER, tiles)}
  }
  ${storeRowsCode('dq', { start: 'queriesAt', stride: 'qkvStride' }, 'SCALE', tiles)}
}
`;

/**
 * Reads qkv, dy and statistics. Writes dK and dV: each workgroup owns a tile of keys, and visits
 * all queries from the tile's start. The first tiles visit the most queries, so they start first.
 */
export const keysGradientCode = (tiles: AttentionTiles): string => `
${tiles.declarations}
fn main() {
  ${attentionPrologueCode('nth')}
  ${declareSumsCode('dk', tiles)}
  ${declareSumsCode('dv', tiles)}
  for (var other = tile; other < tiles; other++) {
    var s = mat4x4<f32>();
    ${multiplyRowsCode('s', [ATTENTION_KEY_ROWS, OWN], [ATTENTION_QUERY_ROWS, OTHER], tiles)}
    var products = vec4<f32>();
    for (var j = 0u; j < 4u; j++) {
      let query = ${OTHER} + column + j * 8u;
      let visible = visibleScores(s[j], vec4<u32>(query), ownRows);
      let statistic = statistics[sequence * context + min(query, context - 1u)];
      // Queries after the context do not exist.
      s[j] = select(vec4<f32>(0.0), exp(visible - statistic.x), query < context);
      products[j] = statistic.y;
    }
    workgroupBarrier();
    storeScores(row, column, s);
    ${addProductCode('dv', ATTENTION_GRADIENT_ROWS, OTHER, tiles)}
    var dp = mat4x4<f32>();
    ${multiplyRowsCode('dp', [ATTENTION_VALUE_ROWS, OWN], [ATTENTION_GRADIENT_ROWS, OTHER], tiles)}
    for (var j = 0u; j < 4u; j++) { s[j] *= dp[j] - products[j]; }
    workgroupBarrier();
    storeScores(row, column, s);
    ${addProductCode('dk', ATTENTION_QUERY_ROWS, OTHER, tiles)}
  }
  ${storeRowsCode('dk', { start: 'keysAt', stride: 'qkvStride' }, 'SCALE', tiles)}
  ${storeRowsCode('dv', { start: 'valuesAt', stride: 'qkvStride' }, '1.0', tiles)}
}
`;
