/** Parts of rows whose length is not a multiple of 4, and sums of the lanes of a vector. */

/** Loads 4 values of a row, of which `count` exist. The others are `rest`. */
export function loadSome(at: usize, count: i32, rest: f32 = 0): v128 {
  if (count >= 4) return v128.load(at);
  let value = f32x4.splat(rest);
  if (count > 0) value = f32x4.replace_lane(value, 0, load<f32>(at));
  if (count > 1) value = f32x4.replace_lane(value, 1, load<f32>(at, 4));
  if (count > 2) value = f32x4.replace_lane(value, 2, load<f32>(at, 8));
  return value;
}

/** Stores the first `count` values. */
export function storeSome(at: usize, value: v128, count: i32): void {
  if (count >= 4) {
    v128.store(at, value);
    return;
  }
  if (count > 0) store<f32>(at, f32x4.extract_lane(value, 0));
  if (count > 1) store<f32>(at, f32x4.extract_lane(value, 1), 4);
  if (count > 2) store<f32>(at, f32x4.extract_lane(value, 2), 8);
}

export function sumOf(value: v128): f32 {
  return (
    f32x4.extract_lane(value, 0) +
    f32x4.extract_lane(value, 1) +
    (f32x4.extract_lane(value, 2) + f32x4.extract_lane(value, 3))
  );
}

export function maximumOf(value: v128): f32 {
  const a = max<f32>(f32x4.extract_lane(value, 0), f32x4.extract_lane(value, 1));
  return max<f32>(a, max<f32>(f32x4.extract_lane(value, 2), f32x4.extract_lane(value, 3)));
}
