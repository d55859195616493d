/**
 * Causal self-attention with several heads (Vaswani et al., "Attention Is All You Need", 2017).
 * Queries are processed in tiles with all keys up to the tile's last one. Only the probabilities of
 * one tile exist at a time. The gradient computes them again, as in Dao, "FlashAttention-2" (2023).
 *
 * qkv is [batch, context, 3 * heads * size]: queries, keys, values.
 */
import { exp4 } from './exp';
import { loadSome, maximumOf, sumOf } from './lanes';
import { multiply } from './product';

/** Queries of a tile. */
const TILE: i32 = 64;

/** Bytes between rows of a tile's probabilities. */
function stepOf(context: i32): usize {
  return 4 * ((context + 3) & ~3);
}

/** Bytes of `probabilities` in {@link attention}; the gradient needs twice as many. */
export function attentionBytes(context: i32): i32 {
  return TILE * (stepOf(context) as i32);
}

/** Computes the probabilities [queries, first + queries] of the queries from `first` on. */
function probabilitiesOf(
  to: usize,
  step: usize,
  q: usize,
  k: usize,
  packed: usize,
  first: i32,
  queries: i32,
  size: i32,
  scratch: usize,
): void {
  multiply(to, step, q, packed, 4, k, 4, packed, queries, first + queries, size, false, scratch);
  const scale = f32x4.splat(1 / sqrt<f32>(size as f32));
  for (let i = 0; i < queries; i++) {
    const visible = first + i + 1;
    const row = to + step * i;
    let high = f32x4.splat(-Infinity);
    for (let j = 0; j < visible; j += 4) {
      const value = f32x4.mul(loadSome(row + 4 * j, visible - j, -Infinity), scale);
      v128.store(row + 4 * j, value);
      high = f32x4.max(high, value);
    }
    const maximum = f32x4.splat(maximumOf(high));
    let total = f32x4.splat(0);
    for (let j = 0; j < visible; j += 4) {
      const value = exp4(f32x4.sub(v128.load(row + 4 * j), maximum));
      v128.store(row + 4 * j, value);
      total = f32x4.add(total, value);
    }
    const share = f32x4.splat(1 / sumOf(total));
    for (let j = 0; j < visible; j += 4) v128.store(row + 4 * j, f32x4.mul(v128.load(row + 4 * j), share));
    const written = (visible + 3) & ~3;
    for (let j = written; j < first + queries; j += 4) v128.store(row + 4 * j, f32x4.splat(0));
  }
}

/**
 * y [batch, context, heads * size] = softmax(q k^T / sqrt(size)) v, over visible keys. Computes the
 * heads from `start` to `end` - 1 of all samples, which are numbered sample by sample.
 */
export function attention(
  y: usize,
  qkv: usize,
  probabilities: usize,
  start: i32,
  end: i32,
  context: i32,
  heads: i32,
  size: i32,
  scratch: usize,
): void {
  const width: usize = 4 * heads * size;
  const packed = width * 3;
  const step = stepOf(context);
  for (let i = start; i < end; i++) {
    const sample = i / heads;
    const head = i % heads;
    const q = qkv + packed * sample * context + 4 * size * head;
    const k = q + width;
    const v = k + width;
    const to = y + width * sample * context + 4 * size * head;
    for (let first = 0; first < context; first += TILE) {
      const queries = min(TILE, context - first);
      probabilitiesOf(probabilities, step, q + packed * first, k, packed, first, queries, size, scratch);
      const keys = first + queries;
      multiply(to + width * first, width, probabilities, step, 4, v, packed, 4, queries, size, keys, false, scratch);
    }
  }
}

/** Computes the gradient of qkv from the gradient of y, for heads as in {@link attention}. */
export function attentionGradient(
  dqkv: usize,
  qkv: usize,
  dy: usize,
  probabilities: usize,
  start: i32,
  end: i32,
  context: i32,
  heads: i32,
  size: i32,
  scratch: usize,
): void {
  const width: usize = 4 * heads * size;
  const packed = width * 3;
  const step = stepOf(context);
  const scores = probabilities + step * TILE;
  const scale = f32x4.splat(1 / sqrt<f32>(size as f32));
  for (let i = start; i < end; i++) {
    const sample = i / heads;
    const head = i % heads;
    const at = packed * sample * context + 4 * size * head;
    const q = qkv + at;
    const k = q + width;
    const v = k + width;
    const dq = dqkv + at;
    const dk = dq + width;
    const dv = dk + width;
    const from = dy + width * sample * context + 4 * size * head;
    for (let row: usize = 0, bytes = packed * context; row < bytes; row += packed) {
      memory.fill(dk + row, 0, 4 * size);
      memory.fill(dv + row, 0, 4 * size);
    }
    for (let first = 0; first < context; first += TILE) {
      const queries = min(TILE, context - first);
      const keys = first + queries;
      const dyTile = from + width * first;
      const qTile = q + packed * first;
      probabilitiesOf(probabilities, step, qTile, k, packed, first, queries, size, scratch);
      multiply(dv, packed, probabilities, 4, step, dyTile, width, 4, keys, size, queries, true, scratch);
      multiply(scores, step, dyTile, width, 4, v, 4, packed, queries, keys, size, false, scratch);
      for (let query = 0; query < queries; query++) {
        const p = probabilities + step * query;
        const d = scores + step * query;
        let sum = f32x4.splat(0);
        for (let j = 0; j < keys; j += 4) {
          // Probabilities are 0 where scores are not written.
          const value = f32x4.mul(v128.load(p + 4 * j), loadSome(d + 4 * j, keys - j));
          sum = f32x4.add(sum, value);
        }
        const mean = f32x4.splat(sumOf(sum));
        for (let j = 0; j < keys; j += 4) {
          const value = f32x4.sub(v128.load(d + 4 * j), mean);
          v128.store(d + 4 * j, f32x4.mul(f32x4.mul(v128.load(p + 4 * j), value), scale));
        }
      }
      multiply(dq + packed * first, packed, scores, step, 4, k, packed, 4, queries, size, keys, false, scratch);
      multiply(dk, packed, scores, 4, step, qTile, packed, 4, keys, size, queries, true, scratch);
    }
  }
}
