/** Code points in UTF-8. Texts as strings would take several times as long. */

/** The lowest code point of a character, by the number of bytes after its first byte. */
const LOWEST = [0, 0x80, 0x800, 0x10000] as const;
const [FIRST_SURROGATE, LAST_SURROGATE, LAST_CODE] = [0xd800, 0xdfff, 0x10ffff];
export const MAX_CHARACTER_BYTES = 4;

/**
 * Writes the code points of `bytes` to the start of `codes`. Returns their number, or -1 if the
 * bytes are not UTF-8.
 */
export function decodeUtf8(bytes: Uint8Array, codes: Uint32Array): number {
  let length = 0;
  for (let at = 0; at < bytes.length;) {
    const first = bytes[at++]!;
    if (first < LOWEST[1]) {
      codes[length++] = first;
      continue;
    }
    const more = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    if (first < 0xc0 || first > 0xf7 || at + more > bytes.length) return -1;
    let code = first & (0x3f >> more);
    for (const end = at + more; at < end; at++) {
      if (!isContinuation(bytes[at]!)) return -1;
      code = (code << 6) | (bytes[at]! & 0x3f);
    }
    if (code < LOWEST[more] || code > LAST_CODE || (code >= FIRST_SURROGATE && code <= LAST_SURROGATE)) return -1;
    codes[length++] = code;
  }
  return length;
}

/** Writes a code point to `bytes` at `at`. Returns the position after it. */
export function encodeUtf8(code: number, bytes: Uint8Array, at: number): number {
  if (code < LOWEST[1]) {
    bytes[at] = code;
    return at + 1;
  }
  const more = code < LOWEST[2] ? 1 : code < LOWEST[3] ? 2 : 3;
  // In the first byte, as many of the highest bits are 1 as the character has bytes.
  bytes[at] = (0xf00 >> (more + 1)) | (code >> (6 * more));
  for (let i = 1; i <= more; i++) bytes[at + i] = 0x80 | ((code >> (6 * (more - i))) & 0x3f);
  return at + 1 + more;
}

/** Returns the number of bytes of an incomplete character at the end. */
export function incompleteCharacterBytes(bytes: Uint8Array): number {
  for (let back = 1; back < MAX_CHARACTER_BYTES && back < bytes.length; back++) {
    const byte = bytes[bytes.length - back]!;
    // The character starts before this byte.
    if (isContinuation(byte)) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

function isContinuation(byte: number): boolean {
  return byte >> 6 === 0b10;
}
