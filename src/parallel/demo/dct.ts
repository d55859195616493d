/**
 * Two-dimensional discrete cosine transform of squares of 64 x 64 values: DCT-II, orthonormal, as
 * scipy.fft.dctn(norm="ortho"). The transform has the same bits on every machine: the table of
 * cosines is computed with additions and multiplications only, because the last bits of Math.cos
 * differ between engines.
 */

/** Length of a square's side. */
export const SIDE = 64;

/** Row k is the k-th cosine. */
const BASIS = createBasis();
const TRANSPOSED = BASIS.map((_, i) => BASIS[(i % SIDE) * SIDE + Math.floor(i / SIDE)]!);

/** Transforms a square in place. */
export function transform(square: Float64Array): void {
  const rows = new Float64Array(SIDE * SIDE);
  multiply(square, BASIS, rows);
  multiply(rows, BASIS, square);
}

/** Undoes {@link transform}, in place. */
export function invert(square: Float64Array): void {
  const rows = new Float64Array(SIDE * SIDE);
  multiply(square, TRANSPOSED, rows);
  multiply(rows, TRANSPOSED, square);
}

/** Computes `to = matrix from^T`. */
function multiply(from: Float64Array, matrix: Float64Array, to: Float64Array): void {
  for (let j = 0; j < SIDE; j++) {
    for (let row = 0; row < SIDE; row++) {
      let sum = 0;
      for (let i = 0; i < SIDE; i++) sum += matrix[j * SIDE + i]! * from[row * SIDE + i]!;
      to[j * SIDE + row] = sum;
    }
  }
}

function createBasis(): Float64Array {
  const cosines = quarterWave();
  const basis = new Float64Array(SIDE * SIDE);
  for (let k = 0; k < SIDE; k++) {
    const scale = Math.sqrt((k === 0 ? 1 : 2) / SIDE);
    // cos(pi (2n + 1) k / (2 SIDE)), by the symmetries of the cosine.
    for (let n = 0; n < SIDE; n++) basis[k * SIDE + n] = scale * cosineAt(cosines, (2 * n + 1) * k);
  }
  return basis;
}

/** Returns cos(pi i / (2 SIDE)) for a whole number i >= 0. */
function cosineAt(cosines: Float64Array, i: number): number {
  const turn = 4 * SIDE;
  const within = i % turn;
  const half = within > turn / 2 ? turn - within : within;
  return half > SIDE ? -cosines[2 * SIDE - half]! : cosines[half]!;
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
