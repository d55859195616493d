import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { hashOfArrays, wholeWordCount } from '../../src/util/hash.ts';
import { createRng, mixSeed, seededPermutation } from '../../src/util/rng.ts';

const text = (value: string): Uint8Array => new TextEncoder().encode(value);

describe('hashOfArrays', () => {
  test('is MurmurHash3, according to its published test vectors', () => {
    // The first half of the digest uses the seed 0.
    expect(hashOfArrays([text('')]).slice(0, 8)).toBe('00000000');
    expect(hashOfArrays([text('test')]).slice(0, 8)).toBe('ba6bd213');
    expect(hashOfArrays([text('Hello, world!')]).slice(0, 8)).toBe('c0363e43');
    expect(hashOfArrays([text('The quick brown fox jumps over the lazy dog')]).slice(0, 8)).toBe('2e4ff723');
    // The second half of the digest uses the seed 0x9747b28c.
    expect(hashOfArrays([text('')]).slice(8)).toBe('ebb6c228');
    expect(hashOfArrays([text('test')]).slice(8)).toBe('704b81dc');
    expect(hashOfArrays([text('Hello, world!')]).slice(8)).toBe('24884cba');
    expect(hashOfArrays([text('The quick brown fox jumps over the lazy dog')]).slice(8)).toBe('2fa826cd');
  });

  test('differs if a single bit of any part differs', () => {
    fc.assert(
      fc.property(
        fc.float32Array({ minLength: 1, maxLength: 50 }),
        fc.nat(),
        fc.nat({ max: 31 }),
        (values, at, bit) => {
          const other = values.slice();
          new Uint32Array(other.buffer)[at % values.length]! ^= 1 << bit;
          expect(hashOfArrays([values, values])).not.toBe(hashOfArrays([values, other]));
        },
      ),
    );
  });

  test.each([0, 3, 4, 2 ** 31 - 1, 2 ** 31, 2 ** 31 + 9, 2 ** 33 + 2])(
    'hashes %i bytes as 32-bit words, except for the last 0 to 3 bytes',
    (bytes) => {
      expect(wholeWordCount(bytes) % 4).toBe(0);
      expect(bytes - wholeWordCount(bytes)).toBeGreaterThanOrEqual(0);
      expect(bytes - wholeWordCount(bytes)).toBeLessThan(4);
    },
  );

  test('does not depend on the position of the values in a buffer', () => {
    const values = Float32Array.of(0, 1, 2, 3);
    expect(hashOfArrays([values.subarray(1)])).toBe(hashOfArrays([Float32Array.of(1, 2, 3)]));
  });
});

describe('seeded random numbers', () => {
  test('are the same on every machine', () => {
    const rng = createRng(1);
    expect([rng.next(), rng.next(), rng.next()].map((x) => Math.round(x * 2 ** 32))).toEqual([
      2693262067, 11749833, 2265367787,
    ]);
    expect(Array.from(seededPermutation(8, 7))).toEqual(Array.from(seededPermutation(8, 7)));
    expect(mixSeed(1, 2)).not.toBe(mixSeed(2, 1));
  });

  test('permute indices, so that each index occurs once', () => {
    fc.assert(
      fc.property(fc.nat({ max: 500 }), fc.nat(), (n, seed) => {
        expect(Array.from(seededPermutation(n, seed)).sort((a, b) => a - b)).toEqual(
          Array.from({ length: n }, (_, i) => i),
        );
      }),
    );
  });
});
