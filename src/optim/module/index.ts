/**
 * Loops over flat arrays, in AssemblyScript. They have the operations of the loops in JavaScript in
 * the same order, so the results have the same bits. `npm run kernels` compiles them.
 */

/**
 * Updates `count` float32 parameters and their averages, which are `mean` and `square`: the loop
 * `adam` in `rules.ts`, with vectors of two float64 numbers. Memory up to the next multiple of 4 is
 * written too.
 */
export function adam(
  params: usize,
  gradient: usize,
  mean: usize,
  square: usize,
  count: i32,
  beta1: f64,
  take1: f64,
  beta2: f64,
  take2: f64,
  stepSize: f64,
  epsilon: f64,
  keep: f64,
  decay: f64,
  squaresFirst: bool,
): void {
  for (let i = 0; i < count; i += 4) {
    const p = v128.load(params);
    const g = v128.load(gradient);
    const m = v128.load(mean);
    const v = v128.load(square);
    let newP = f32x4.splat(0);
    let newM = newP;
    let newV = newP;
    for (let half = 0; half < 2; half++) {
      const isLow = half == 0;
      const p2 = halfOf(p, isLow);
      const given = halfOf(g, isLow);
      const g2 = decay == 0 ? given : f64x2.add(given, f64x2.mul(f64x2.splat(decay), p2));
      const m2 = f64x2.add(f64x2.mul(f64x2.splat(beta1), halfOf(m, isLow)), f64x2.mul(f64x2.splat(take1), g2));
      const taken = f64x2.splat(take2);
      const added = squaresFirst ? f64x2.mul(taken, f64x2.mul(g2, g2)) : f64x2.mul(f64x2.mul(taken, g2), g2);
      const v2 = f64x2.add(f64x2.mul(f64x2.splat(beta2), halfOf(v, isLow)), added);
      const root = f64x2.add(f64x2.sqrt(v2), f64x2.splat(epsilon));
      const moved = f64x2.div(f64x2.mul(f64x2.splat(stepSize), m2), root);
      newP = joined(newP, f64x2.sub(f64x2.mul(p2, f64x2.splat(keep)), moved), isLow);
      newM = joined(newM, m2, isLow);
      newV = joined(newV, v2, isLow);
    }
    v128.store(params, newP);
    v128.store(mean, newM);
    v128.store(square, newV);
    params += 16;
    gradient += 16;
    mean += 16;
    square += 16;
  }
}

/**
 * Divides `count` float32 numbers. JavaScript divides them as float64 and then rounds, which has
 * the same bits. Memory up to the next multiple of 4 is written too.
 */
export function divide(values: usize, count: i32, by: f32): void {
  const divisor = f32x4.splat(by);
  for (let i = 0; i < count; i += 4) {
    v128.store(values, f32x4.div(v128.load(values), divisor));
    values += 16;
  }
}

/** Two of the four floats as float64. */
function halfOf(value: v128, isLow: bool): v128 {
  return f64x2.promote_low_f32x4(isLow ? value : v128.shuffle<i64>(value, value, 1, 1));
}

/** Rounds two float64 numbers to float32, and puts them into the lower or the upper half. */
function joined(value: v128, half: v128, isLow: bool): v128 {
  const rounded = f32x4.demote_f64x2_zero(half);
  return isLow ? rounded : v128.shuffle<i64>(value, rounded, 0, 2);
}
