/**
 * Products of matrices with any steps between their elements, so that no matrix is transposed
 * first. Each element of the result adds its products in the order of the inner axis. So its bits
 * do not depend on tiles, and are those of XNNPACK.
 *
 * The loops follow Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication"
 * (2008): a tile of the result is in registers, and panels of the second matrix are in the cache.
 */
import { loadSome, storeSome } from './lanes';

/** Rows and columns of the tile of the result that is kept in registers. */
const ROWS: i32 = 4;
const COLUMNS: i32 = 8;
/** Length of the inner axis for which a panel of the second matrix stays in the first cache. */
const DEPTH: i32 = 256;
/** Bytes of packed panels, which stay in the second cache. */
const PACKED: i32 = 131072;
/** Bytes that `multiply` needs as `scratch`. */
export const SCRATCH: i32 = PACKED + 4 * ROWS * DEPTH;

/** Copies a panel [depth, COLUMNS] of b to `to`; columns from `columns` on are 0. */
function pack(to: usize, b: usize, rowStep: usize, columnStep: usize, depth: i32, columns: i32): void {
  if (columnStep == 4) {
    for (let k = 0; k < depth; k++) {
      v128.store(to, loadSome(b, columns));
      v128.store(to, loadSome(b + 16, columns - 4), 16);
      b += rowStep;
      to += 32;
    }
    return;
  }
  if (rowStep == 4 && columns == COLUMNS) {
    const deep = depth & ~3;
    for (let half = 0; half < 2; half++) {
      let from = b + columnStep * 4 * half;
      let at = to + 16 * half;
      for (let k = 0; k < deep; k += 4) {
        const r0 = v128.load(from);
        const r1 = v128.load(from + columnStep);
        const r2 = v128.load(from + 2 * columnStep);
        const r3 = v128.load(from + 3 * columnStep);
        const t0 = v128.shuffle<i32>(r0, r1, 0, 4, 1, 5);
        const t1 = v128.shuffle<i32>(r2, r3, 0, 4, 1, 5);
        const t2 = v128.shuffle<i32>(r0, r1, 2, 6, 3, 7);
        const t3 = v128.shuffle<i32>(r2, r3, 2, 6, 3, 7);
        v128.store(at, v128.shuffle<i64>(t0, t1, 0, 2));
        v128.store(at, v128.shuffle<i64>(t0, t1, 1, 3), 32);
        v128.store(at, v128.shuffle<i64>(t2, t3, 0, 2), 64);
        v128.store(at, v128.shuffle<i64>(t2, t3, 1, 3), 96);
        from += 16;
        at += 128;
      }
    }
    b += rowStep * deep;
    to += 32 * deep;
    depth -= deep;
  }
  for (let k = 0; k < depth; k++) {
    for (let j = 0; j < COLUMNS; j++) {
      store<f32>(to + 4 * j, j < columns ? load<f32>(b + columnStep * j) : 0);
    }
    b += rowStep;
    to += 32;
  }
}

/**
 * Copies a tile [ROWS, depth] of a, of which `rows` rows exist, so that its columns are adjacent.
 */
function packColumns(to: usize, a: usize, step: usize, depth: i32, rows: i32): void {
  for (let k = 0; k < depth; k++) {
    v128.store(to, loadSome(a, rows));
    a += step;
    to += 16;
  }
}

/**
 * c [rows, columns] = a [rows, depth] . b [depth, columns], or that plus c if `isAdded`. Steps
 * between elements are in bytes. Nothing is written if `depth` is 0.
 *
 * @param scratch memory of SCRATCH bytes.
 */
export function multiply(
  c: usize,
  cStep: usize,
  a: usize,
  aRowStep: usize,
  aStep: usize,
  b: usize,
  bRowStep: usize,
  bColumnStep: usize,
  rows: i32,
  columns: i32,
  depth: i32,
  isAdded: bool,
  scratch: usize,
): void {
  const packedRows = scratch + PACKED;
  for (let start = 0; start < depth; start += DEPTH) {
    const some = min(DEPTH, depth - start);
    const panelBytes: usize = 32 * some;
    const block = (PACKED / (32 * some)) * COLUMNS;
    for (let first = 0; first < columns; first += block) {
      const end = min(columns, first + block);
      const isPacked = rows > 2 * ROWS || bColumnStep != 4 || end % COLUMNS != 0;
      if (isPacked) {
        for (let j = first, to = scratch; j < end; j += COLUMNS) {
          pack(to, b + bRowStep * start + bColumnStep * j, bRowStep, bColumnStep, some, min(COLUMNS, end - j));
          to += panelBytes;
        }
      }
      for (let i = 0; i < rows; i += ROWS) {
        const last = rows - 1 - i;
        let a0 = a + aStep * start + aRowStep * i;
        let step = aStep;
        if (aRowStep == 4) {
          packColumns(packedRows, a0, aStep, some, last + 1);
          a0 = packedRows;
          step = 16;
        }
        const a1 = a0 + aRowStep * min(1, last);
        const a2 = a0 + aRowStep * min(2, last);
        const a3 = a0 + aRowStep * min(3, last);
        let panel = isPacked ? scratch : b + bRowStep * start + 4 * first;
        const panelStep: usize = isPacked ? 32 : bRowStep;
        for (let j = first; j < end; j += COLUMNS) {
          const width = end - j;
          const c0 = c + cStep * i + 4 * j;
          const c1 = c0 + cStep * min(1, last);
          const c2 = c0 + cStep * min(2, last);
          const c3 = c0 + cStep * min(3, last);
          let s00 = f32x4.splat(0),
            s01 = s00,
            s10 = s00,
            s11 = s00,
            s20 = s00,
            s21 = s00,
            s30 = s00,
            s31 = s00;
          if (start > 0 || isAdded) {
            s00 = loadSome(c0, width);
            s01 = loadSome(c0 + 16, width - 4);
            s10 = loadSome(c1, width);
            s11 = loadSome(c1 + 16, width - 4);
            s20 = loadSome(c2, width);
            s21 = loadSome(c2 + 16, width - 4);
            s30 = loadSome(c3, width);
            s31 = loadSome(c3 + 16, width - 4);
          }
          let p = panel;
          const stop = (some as usize) * step;
          for (let k: usize = 0; k < stop; k += step) {
            const b0 = v128.load(p);
            const b1 = v128.load(p, 16);
            p += panelStep;
            const x0 = v128.load32_splat(a0 + k);
            s00 = f32x4.add(s00, f32x4.mul(x0, b0));
            s01 = f32x4.add(s01, f32x4.mul(x0, b1));
            const x1 = v128.load32_splat(a1 + k);
            s10 = f32x4.add(s10, f32x4.mul(x1, b0));
            s11 = f32x4.add(s11, f32x4.mul(x1, b1));
            const x2 = v128.load32_splat(a2 + k);
            s20 = f32x4.add(s20, f32x4.mul(x2, b0));
            s21 = f32x4.add(s21, f32x4.mul(x2, b1));
            const x3 = v128.load32_splat(a3 + k);
            s30 = f32x4.add(s30, f32x4.mul(x3, b0));
            s31 = f32x4.add(s31, f32x4.mul(x3, b1));
          }
          storeSome(c3, s30, width);
          storeSome(c3 + 16, s31, width - 4);
          storeSome(c2, s20, width);
          storeSome(c2 + 16, s21, width - 4);
          storeSome(c1, s10, width);
          storeSome(c1 + 16, s11, width - 4);
          storeSome(c0, s00, width);
          storeSome(c0 + 16, s01, width - 4);
          panel += isPacked ? panelBytes : 32;
        }
      }
    }
  }
}
