import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BitReader, BitWriter } from '../../../src/parallel/sparse/bits.ts';
import { indicesOfLargest } from '../../../src/parallel/sparse/largest.ts';
import { decodeLargestEntries, encodeLargestEntries } from '../../../src/parallel/sparse/sparsePayload.ts';
import { PeergradError } from '../../../src/util/errors.ts';
import { createRng } from '../../../src/util/rng.ts';

/** Values with many magnitudes. */
function values(length: number, seed: number): Float32Array {
  const rng = createRng(seed);
  return Float32Array.from({ length }, () => (rng.next() - 0.5) * 10 ** (4 * rng.next() - 4));
}

describe('bits', () => {
  test('are read as they were written', () => {
    const numbers = fc.array(fc.record({ bits: fc.integer({ min: 1, max: 20 }), value: fc.nat() }), {
      maxLength: 2000,
    });
    fc.assert(
      fc.property(numbers, (written) => {
        const writer = new BitWriter();
        for (const { bits, value } of written) {
          writer.write(value % 2 ** bits, bits);
          writer.writeUnary(value % 11);
        }
        const reader = new BitReader(writer.bytes, 0);
        for (const { bits, value } of written) {
          expect(reader.read(bits)).toBe(value % 2 ** bits);
          expect(reader.readUnary()).toBe(value % 11);
        }
      }),
      { numRuns: 30 },
    );
  });
});

describe('the largest entries', () => {
  test('are those of a list sorted by size', () => {
    const few = fc.array(fc.integer({ min: -9, max: 9 }), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(few, fc.nat(), (list, n) => {
        const count = 1 + (n % list.length);
        const expected = [...list.keys()]
          .sort((a, b) => Math.abs(list[b]!) - Math.abs(list[a]!) || a - b)
          .slice(0, count)
          .sort((a, b) => a - b);
        expect(Array.from(indicesOfLargest(Float32Array.from(list), count))).toEqual(expected);
      }),
    );
  });

  test('are also found among values that are not finite', () => {
    expect(Array.from(indicesOfLargest(Float32Array.of(NaN, 1, -Infinity, 2), 2))).toEqual([2, 3]);
  });
});

describe('a payload', () => {
  test.each([1, 100, 4096, 4097, 10_000])('of %i values contains exactly what was subtracted from these', (length) => {
    const before = values(length, length);
    const rest = before.slice();
    const decoded = decodeLargestEntries(encodeLargestEntries(rest, 64), length, 64, 0);
    for (let i = 0; i < length; i++) expect(rest[i]).toBe(Math.fround(before[i]! - decoded[i]!));
    const sent = decoded.filter((value) => value !== 0).length;
    expect(sent / Math.max(1, (64 * length) / 4096)).toBeCloseTo(1, 0);
  });

  test('needs less than 9 bits per entry if it has one of 32 values', () => {
    const chunks = 20;
    const entries = 128;
    const { length } = encodeLargestEntries(values(chunks * 4096, 3), entries);
    // Each chunk also has two float32 numbers.
    expect(((length - 8 * chunks) * 8) / (chunks * entries)).toBeLessThan(9);
  });

  test('is rejected if it is truncated', () => {
    const payload = encodeLargestEntries(values(4096, 5), 64);
    expect(() => decodeLargestEntries(payload.subarray(0, 40), 4096, 64, 3)).toThrow(PeergradError);
    expect(() => decodeLargestEntries(payload.subarray(0, 40), 4096, 64, 3)).toThrow(
      'The payload of rank 3 ends too early',
    );
    expect(() => decodeLargestEntries(payload.subarray(0, 4), 4096, 64, 3)).toThrow(
      /^Rank 3 has sent 4 bytes .* fewer than 8/,
    );
  });

  test('is rejected if an index is beyond the values', () => {
    const payload = new Uint8Array(100).fill(255);
    expect(() => decodeLargestEntries(payload, 4096, 64, 3)).toThrow(PeergradError);
  });
});
