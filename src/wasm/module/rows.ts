/** Functions of the rows of a matrix: RMS normalization, sums of rows, and a row for each row. */
import { loadSome, storeSome, sumOf } from './lanes';

/** Rows that are added before they are added to the sum of other rows, which keeps errors small. */
const CHUNK: i32 = 32;

/** y = x * r * scale for each row x, with r = 1 / sqrt(mean(x^2) + epsilon). */
export function rmsNorm(y: usize, x: usize, scale: usize, rows: i32, columns: i32, epsilon: f32): void {
  for (let i = 0; i < rows; i++) {
    const r = f32x4.splat(inverseRoot(x, columns, epsilon));
    for (let j = 0; j < columns; j += 4) {
      const some = columns - j;
      const value = f32x4.mul(f32x4.mul(loadSome(x + 4 * j, some), r), loadSome(scale + 4 * j, some));
      storeSome(y + 4 * j, value, some);
    }
    x += 4 * columns;
    y += 4 * columns;
  }
}

/** dx = r * scale * dy - x * r^3 * mean(scale * dy * x), plus `passed` unless it is 0. */
export function rmsNormGradient(
  dx: usize,
  x: usize,
  scale: usize,
  dy: usize,
  passed: usize,
  rows: i32,
  columns: i32,
  epsilon: f32,
): void {
  for (let i = 0; i < rows; i++) {
    const inverse = inverseRoot(x, columns, epsilon);
    let products = f32x4.splat(0);
    for (let j = 0; j < columns; j += 4) {
      const some = columns - j;
      const scaled = f32x4.mul(loadSome(scale + 4 * j, some), loadSome(dy + 4 * j, some));
      products = f32x4.add(products, f32x4.mul(scaled, loadSome(x + 4 * j, some)));
    }
    const r = f32x4.splat(inverse);
    const along = f32x4.splat((inverse * inverse * inverse * sumOf(products)) / (columns as f32));
    for (let j = 0; j < columns; j += 4) {
      const some = columns - j;
      const scaled = f32x4.mul(loadSome(scale + 4 * j, some), loadSome(dy + 4 * j, some));
      let value = f32x4.sub(f32x4.mul(r, scaled), f32x4.mul(along, loadSome(x + 4 * j, some)));
      if (passed) value = f32x4.add(value, loadSome(passed + 4 * j, some));
      storeSome(dx + 4 * j, value, some);
    }
    x += 4 * columns;
    dy += 4 * columns;
    dx += 4 * columns;
    if (passed) passed += 4 * columns;
  }
}

/** products = dy * x * r, whose sum over the rows is the gradient of the scale. */
export function rmsNormScaleProducts(
  products: usize,
  x: usize,
  dy: usize,
  rows: i32,
  columns: i32,
  epsilon: f32,
): void {
  for (let i = 0; i < rows; i++) {
    const r = f32x4.splat(inverseRoot(x, columns, epsilon));
    for (let j = 0; j < columns; j += 4) {
      const some = columns - j;
      const value = f32x4.mul(loadSome(dy + 4 * j, some), f32x4.mul(loadSome(x + 4 * j, some), r));
      storeSome(products + 4 * j, value, some);
    }
    x += 4 * columns;
    dy += 4 * columns;
    products += 4 * columns;
  }
}

function inverseRoot(x: usize, columns: i32, epsilon: f32): f32 {
  let squares = f32x4.splat(0);
  for (let j = 0; j < columns; j += 4) {
    const value = loadSome(x + 4 * j, columns - j);
    squares = f32x4.add(squares, f32x4.mul(value, value));
  }
  return 1 / sqrt<f32>(sumOf(squares) / (columns as f32) + epsilon);
}

/** Sums the rows of x, which are `step` bytes apart. */
export function sumColumns(sums: usize, x: usize, step: usize, rows: i32, columns: i32): void {
  for (let j = 0; j < columns; j += 4) {
    const some = columns - j;
    let at = x + 4 * j;
    let sum = f32x4.splat(0);
    for (let start = 0; start < rows; start += CHUNK) {
      let part = f32x4.splat(0);
      for (let i = start, end = min(rows, start + CHUNK); i < end; i++) {
        part = f32x4.add(part, loadSome(at, some));
        at += step;
      }
      sum = f32x4.add(sum, part);
    }
    storeSome(sums + 4 * j, sum, some);
  }
}

/** y = x + row, for each row of x. */
export function addRow(y: usize, x: usize, row: usize, rows: i32, columns: i32): void {
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j += 4) {
      const some = columns - j;
      storeSome(y + 4 * j, f32x4.add(loadSome(x + 4 * j, some), loadSome(row + 4 * j, some)), some);
    }
    x += 4 * columns;
    y += 4 * columns;
  }
}

/**
 * Adds the rows of x in their order. {@link sumColumns} has smaller errors, but other bits than
 * TensorFlow.js's sum of a transposed matrix.
 */
export function sumRows(sum: usize, x: usize, rows: i32, columns: i32): void {
  const step = 4 * columns;
  for (let j = 0; j < columns; j += 16) {
    const some = columns - j;
    let at = x + 4 * j;
    let a = f32x4.splat(0);
    let b = a;
    let c = a;
    let d = a;
    for (let i = 0; i < rows; i++) {
      a = f32x4.add(a, loadSome(at, some));
      if (some > 4) b = f32x4.add(b, loadSome(at + 16, some - 4));
      if (some > 8) c = f32x4.add(c, loadSome(at + 32, some - 8));
      if (some > 12) d = f32x4.add(d, loadSome(at + 48, some - 12));
      at += step;
    }
    storeSome(sum + 4 * j, a, some);
    storeSome(sum + 4 * j + 16, b, some - 4);
    storeSome(sum + 4 * j + 32, c, some - 8);
    storeSome(sum + 4 * j + 48, d, some - 12);
  }
}
