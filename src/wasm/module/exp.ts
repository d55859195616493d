/**
 * e^x of 4 floats, within 2 units of the last place: the algorithm and coefficients of `expf` in
 * the Cephes library (Moshier, 1989). x = n ln 2 + r, and a polynomial of r is multiplied by 2^n.
 * Results below the smallest normal number are 0.
 */
export function exp4(x: v128): v128 {
  const HIGHEST = f32x4.splat(88.72283);
  const LOWEST = f32x4.splat(-87.33654);
  const n = f32x4.nearest(f32x4.mul(f32x4.max(f32x4.min(x, HIGHEST), LOWEST), f32x4.splat(1.44269504)));
  let r = f32x4.sub(x, f32x4.mul(n, f32x4.splat(0.693359375)));
  r = f32x4.sub(r, f32x4.mul(n, f32x4.splat(-2.1219444e-4)));
  let y = f32x4.splat(1.98756915e-4);
  y = f32x4.add(f32x4.mul(y, r), f32x4.splat(1.3981999507e-3));
  y = f32x4.add(f32x4.mul(y, r), f32x4.splat(8.3334519073e-3));
  y = f32x4.add(f32x4.mul(y, r), f32x4.splat(4.1665795894e-2));
  y = f32x4.add(f32x4.mul(y, r), f32x4.splat(1.6666665459e-1));
  y = f32x4.add(f32x4.mul(y, r), f32x4.splat(5.0000001201e-1));
  y = f32x4.add(f32x4.add(f32x4.mul(y, f32x4.mul(r, r)), r), f32x4.splat(1));
  // 2^128 is not a float, so the power is applied as two factors.
  const power = i32x4.trunc_sat_f32x4_s(n);
  const half = i32x4.shr_s(power, 1);
  const first = i32x4.shl(i32x4.add(half, i32x4.splat(127)), 23);
  const second = i32x4.shl(i32x4.add(i32x4.sub(power, half), i32x4.splat(127)), 23);
  y = f32x4.mul(f32x4.mul(y, first), second);
  y = v128.andnot(y, f32x4.lt(x, LOWEST));
  y = v128.bitselect(f32x4.splat(Infinity), y, f32x4.gt(x, HIGHEST));
  // NaN is neither equal to itself nor changed.
  return v128.bitselect(y, x, f32x4.eq(x, x));
}
