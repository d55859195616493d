/** Returns bytes as text, two hexadecimal digits each, with `between` between two bytes. */
export function hexOf(bytes: Iterable<number>, between = ''): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(between);
}
