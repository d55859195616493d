/**
 * Digest of state, to tell whether replicas agree bit for bit.
 *
 * SHA-256 of the concatenated SHA-256 of each part, first 16 hexadecimal digits: the platform's own implementation runs
 * at memory speed, and 64 bits are plenty against accidents (nobody forges their own replica).
 *
 * @throws where `crypto.subtle` is missing: browsers have it in secure contexts only, which WebGPU needs as well.
 */
export async function hashState(parts: readonly ArrayBufferView<ArrayBuffer>[]): Promise<string> {
  const digests = await Promise.all(parts.map((part) => crypto.subtle.digest('SHA-256', part)));
  const joined = new Uint8Array(digests.length * 32);
  digests.forEach((digest, i) => joined.set(new Uint8Array(digest), i * 32));
  const total = new Uint8Array(await crypto.subtle.digest('SHA-256', joined));
  return Array.from(total.subarray(0, 8), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
