/**
 * Two-dimensional discrete cosine transform of squares of 64 x 64 values: DCT-II, orthonormal, as
 * scipy.fft.dctn(norm="ortho"), but with the frequencies in another order ({@link FREQUENCIES}).
 *
 * A transform of n values is one of n / 2 values, and a product with a matrix of n / 2 x n / 2:
 * even frequencies are those of the sums of opposite values, and odd frequencies need their
 * differences only (Chen, Smith, Fralick, "A Fast Computational Algorithm for the Discrete Cosine
 * Transform", 1977). It has the same bits on every machine: the table of cosines is computed with
 * additions and multiplications only, because the last bits of Math.cos differ between engines.
 */

/** Length of a square's side. */
export const SIDE = 64;

/** The frequency of each place of a transformed row or column: even ones first, at all levels. */
export const FREQUENCIES: readonly number[] = frequencies(SIDE, 1);

const COSINES = quarterWave();
/** For n = 2, 4, ... 64: cos(pi (2i + 1)(2m + 1) / 2n), row m, column i. */
const ODD = new Map(
  [2, 4, 8, 16, 32, 64].map((n) => {
    const half = n / 2;
    const at = (m: number, i: number): number => cosineAt(((2 * i + 1) * (2 * m + 1) * SIDE) / n);
    return [n, Float64Array.from({ length: half * half }, (_, j) => at(Math.floor(j / half), j % half))];
  }),
);
/** Factors that make the transform orthonormal: of frequency 0, and of the others. */
const SCALES = [Math.sqrt(1 / SIDE), Math.sqrt(2 / SIDE)] as const;

const half = new Float64Array(SIDE / 2);

/** Transforms a square in place. */
export function transform(square: Float64Array): void {
  for (let pass = 0; pass < 2; pass++) {
    for (let row = 0; row < square.length; row += SIDE) {
      analyse(square, row, SIDE);
      for (let i = 0; i < SIDE; i++) square[row + i]! *= i === 0 ? SCALES[0] : SCALES[1];
    }
    transpose(square);
  }
}

/** Undoes {@link transform}, in place. */
export function invert(square: Float64Array): void {
  for (let pass = 0; pass < 2; pass++) {
    for (let row = 0; row < square.length; row += SIDE) {
      for (let i = 0; i < SIDE; i++) square[row + i]! *= i === 0 ? SCALES[0] : SCALES[1];
      synthesize(square, row, SIDE);
    }
    transpose(square);
  }
}

/** Replaces n values by the sums of their products with cosines. */
function analyse(values: Float64Array, start: number, n: number): void {
  if (n === 1) return;
  const middle = n / 2;
  for (let i = 0; i < middle; i++) {
    const [low, high] = [values[start + i]!, values[start + n - 1 - i]!];
    values[start + i] = low + high;
    half[i] = low - high;
  }
  multiply(ODD.get(n)!, middle, values, start + middle);
  analyse(values, start, middle);
}

/** Replaces n coefficients by the sums of cosines that have them. */
function synthesize(values: Float64Array, start: number, n: number): void {
  if (n === 1) return;
  const middle = n / 2;
  synthesize(values, start, middle);
  for (let i = 0; i < middle; i++) half[i] = values[start + middle + i]!;
  // The matrix of odd frequencies is symmetric.
  multiply(ODD.get(n)!, middle, values, start + middle);
  for (let i = 0; i < middle; i++) half[i] = values[start + middle + i]!;
  for (let i = 0; i < middle; i++) {
    const even = values[start + i]!;
    values[start + i] = even + half[i]!;
    values[start + n - 1 - i] = even - half[i]!;
  }
}

/** Multiplies a matrix with {@link half}. */
function multiply(matrix: Float64Array, n: number, to: Float64Array, start: number): void {
  for (let m = 0; m < n; m++) {
    let sum = 0;
    for (let i = 0; i < n; i++) sum += matrix[m * n + i]! * half[i]!;
    to[start + m] = sum;
  }
}

function transpose(square: Float64Array): void {
  for (let row = 0; row < SIDE; row++) {
    for (let column = 0; column < row; column++) {
      const [a, b] = [row * SIDE + column, column * SIDE + row];
      const value = square[a]!;
      square[a] = square[b]!;
      square[b] = value;
    }
  }
}

/** Returns the frequencies of n places, each multiplied by `step`. */
function frequencies(n: number, step: number): number[] {
  if (n === 1) return [0];
  const odd = Array.from({ length: n / 2 }, (_, m) => (2 * m + 1) * step);
  return [...frequencies(n / 2, 2 * step), ...odd];
}

/** Returns cos(pi i / (2 SIDE)) for a whole number i >= 0, by the symmetries of the cosine. */
function cosineAt(i: number): number {
  const turn = 4 * SIDE;
  const within = i % turn;
  const folded = within > turn / 2 ? turn - within : within;
  return folded > SIDE ? -COSINES[2 * SIDE - folded]! : COSINES[folded]!;
}

/** Returns cos(pi i / (2 SIDE)) for i = 0 to SIDE, by the series of the cosine. */
function quarterWave(): Float64Array {
  return Float64Array.from({ length: SIDE + 1 }, (_, i) => {
    if (i === SIDE) return 0;
    const x = (Math.PI * i) / (2 * SIDE);
    let term = 1;
    let sum = 1;
    for (let n = 2; Math.abs(term) > 1e-18; n += 2) {
      term *= (-x * x) / (n * (n - 1));
      sum += term;
    }
    return sum;
  });
}
