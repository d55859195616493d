/** Finds the entries with the largest magnitudes. */

/**
 * Returns the indices of the `count` values with the largest magnitudes, ascending. Of equal
 * magnitudes, those with lower indices are taken. A NaN counts as 0.
 */
export function indicesOfLargest(values: Float32Array, count: number): Uint32Array {
  const magnitudes = values.map((value) => Math.abs(value) || 0);
  const threshold = nthLargest(magnitudes.slice(), count);
  let ties = count;
  for (const magnitude of magnitudes) if (magnitude > threshold) ties -= 1;
  const entries = new Uint32Array(count);
  let found = 0;
  for (let i = 0; i < magnitudes.length && found < count; i++) {
    if (magnitudes[i]! < threshold) continue;
    if (magnitudes[i] === threshold && ties-- <= 0) continue;
    entries[found++] = i;
  }
  return entries;
}

/** Returns the n-th largest value; Hoare's quickselect. `values` is reordered. */
function nthLargest(values: Float32Array, n: number): number {
  const at = n - 1;
  let low = 0;
  let high = values.length - 1;
  while (low < high) {
    const pivot = values[(low + high) >>> 1]!;
    let i = low;
    let j = high;
    while (i <= j) {
      while (values[i]! > pivot) i += 1;
      while (values[j]! < pivot) j -= 1;
      if (i > j) break;
      const value = values[i]!;
      values[i++] = values[j]!;
      values[j--] = value;
    }
    if (at <= j) high = j;
    else if (at >= i) low = i;
    else break;
  }
  return values[at]!;
}
