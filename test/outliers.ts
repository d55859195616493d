/** Most outliers that an error shows. */
const SHOWN = 5;

/**
 * Returns the first places at which two arrays are not close; an empty list if there are none. One
 * assertion of this list replaces one for each number, which take longer than what they test.
 *
 * @param isClose receives the absolute difference, which is NaN if a number is missing or NaN.
 */
export function outliers(
  actual: ArrayLike<number>,
  expected: ArrayLike<number>,
  isClose: (difference: number) => boolean,
): string[] {
  const found: string[] = [];
  const length = Math.max(actual.length, expected.length);
  for (let i = 0; i < length && found.length < SHOWN; i++) {
    if (isClose(Math.abs(actual[i]! - expected[i]!))) continue;
    found.push(`${i}: ${actual[i]} instead of ${expected[i]}`);
  }
  return found;
}
