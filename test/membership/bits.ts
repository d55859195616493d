/** Returns the number of bits that are set; the models keep sets of samples as bits. */
export function bitsOf(bits: number): number {
  let count = 0;
  for (let left = bits; left !== 0; left &= left - 1) count++;
  return count;
}
