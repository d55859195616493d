/** Bytes of typed arrays. */

/** Returns the bytes of an array. They are not copied. */
export function bytesOfArray<Buffer extends ArrayBufferLike>({
  buffer,
  byteOffset,
  byteLength,
}: ArrayBufferView<Buffer>): Uint8Array<Buffer> {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Returns a copy of the bytes of all arrays, one after the other. */
export function joinBytes(parts: readonly ArrayBufferView[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(bytesOfArray(part), at);
    at += part.byteLength;
  }
  return bytes;
}
