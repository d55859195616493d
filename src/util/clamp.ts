/** Returns the number from `least` to `most` that is closest to `value`. */
export function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value));
}
