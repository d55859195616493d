import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeUtf8, encodeUtf8 } from '../../src/formats/utf8.ts';

const codesIn = (text: string): number[] => Array.from(text, (character) => character.codePointAt(0)!);

function decoded(bytes: Uint8Array): number[] | null {
  const codes = new Uint32Array(bytes.length);
  const length = decodeUtf8(bytes, codes);
  return length === -1 ? null : [...codes.subarray(0, length)];
}

function expected(bytes: Uint8Array): number[] | null {
  try {
    return codesIn(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    return null;
  }
}

test('code points, all below 0x900 and those at every length, are encoded and decoded as TextEncoder and TextDecoder do', () => {
  const bytes = new Uint8Array(4);
  for (let code = 0; code <= 0x10ffff; code += code < 0x900 || (code > 0xff00 && code < 0x10100) ? 1 : 97) {
    if (code >= 0xd800 && code <= 0xdfff) continue;
    const own = bytes.subarray(0, encodeUtf8(code, bytes, 0));
    const theirs = new TextEncoder().encode(String.fromCodePoint(code));
    if (Buffer.compare(own, theirs) !== 0 || decoded(own)?.[0] !== code)
      expect({ code, own }).toEqual({ code, theirs });
  }
  for (const edge of [0x7f, 0x80, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff]) {
    const own = bytes.slice(0, encodeUtf8(edge, bytes, 0));
    expect([own, decoded(own)]).toEqual([new TextEncoder().encode(String.fromCodePoint(edge)), [edge]]);
  }
});

test('bytes are rejected if TextDecoder rejects them', () => {
  // Bytes near the boundaries of what may begin or continue a character.
  const byte = fc.constantFrom(0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1);
  const other = fc.constantFrom(0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf7, 0xf8, 0xff, 0xbf, 0x80);
  fc.assert(
    fc.property(fc.array(fc.oneof(byte, other), { maxLength: 6 }), (values) => {
      const bytes = Uint8Array.from(values);
      expect(decoded(bytes)).toEqual(expected(bytes));
    }),
    { numRuns: 3000 },
  );
  for (let first = 0xc0; first <= 0xff; first++) {
    for (let second = 0x70; second <= 0xc8; second++) {
      for (const rest of [[], [0x80], [0xbf, 0x80], [0x41]]) {
        const bytes = Uint8Array.of(first, second, ...rest);
        if (String(decoded(bytes)) !== String(expected(bytes))) expect(bytes).toBe(expected(bytes));
      }
    }
  }
});
