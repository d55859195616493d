/**
 * Digest of state, to tell whether replicas agree bit for bit: 64 bits, plenty against accidents (nobody forges their own
 * replica). Not SHA-256 of `crypto.subtle`, which browsers have in secure contexts only: a class without certificates may
 * still train on WebGL.
 */

/** Austin Appleby's MurmurHash3, x86 32-bit variant, over the words and then the last bytes of `bytes`. */
function murmur3(bytes: Uint8Array, seed: number): number {
  const C1 = 0xcc9e2d51;
  const C2 = 0x1b873593;
  const scramble = (word: number): number => {
    const k = Math.imul(word, C1);
    return Math.imul((k << 15) | (k >>> 17), C2);
  };
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const whole = bytes.byteLength & ~3;
  let h = seed;
  for (let i = 0; i < whole; i += 4) {
    h ^= scramble(view.getUint32(i, true));
    h = (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0;
  }
  let tail = 0;
  for (let i = bytes.byteLength - 1; i >= whole; i--) tail = (tail << 8) | bytes[i]!;
  h ^= scramble(tail) ^ bytes.byteLength;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Digest of `parts`, in order, as 16 hexadecimal digits. */
export function hashState(parts: readonly ArrayBufferView[]): string {
  let high = 0;
  let low = 0x9747b28c;
  for (const { buffer, byteOffset, byteLength } of parts) {
    const bytes = new Uint8Array(buffer, byteOffset, byteLength);
    high = murmur3(bytes, high);
    low = murmur3(bytes, low);
  }
  return [high, low].map((word) => word.toString(16).padStart(8, '0')).join('');
}
