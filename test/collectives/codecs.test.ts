/**
 * Tests of codecs without collectives: residuals, values that are not finite, and idempotent
 * encoding.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { codecByName, INT8_BLOCK_ELEMENTS, type Codec } from '../../src/collectives/codecs.ts';
import { FRAME_HEADER_BYTES, MAX_FRAME_BYTES } from '../../src/protocol/frame.ts';
import { UsageError } from '../../src/util/errors.ts';
import { ENCODED_CODECS } from './encodedCodecs.ts';

const CODECS: [string, Codec][] = ENCODED_CODECS.map((name) => [name, codecByName(name)!]);

function encode(codec: Codec, values: Float32Array, residual: Float32Array | null = null): ArrayBuffer {
  const frame = new ArrayBuffer(FRAME_HEADER_BYTES + codec.bytesOf(values.length));
  codec.encode(values, frame, residual);
  return frame;
}

function decode(codec: Codec, frame: ArrayBuffer, length: number): Float32Array {
  const values = new Float32Array(length);
  codec.decode(frame, values);
  return values;
}

/**
 * Arrays of any 32 bits, including NaNs, infinities and subnormals, or arrays of values with
 * similar magnitudes, like gradients.
 */
const anything = fc
  .uint32Array({ maxLength: 3 * INT8_BLOCK_ELEMENTS })
  .map((bits) => new Float32Array(bits.slice().buffer));
const alike = fc
  .tuple(
    fc.array(fc.integer({ min: -1000, max: 1000 }), { maxLength: 3 * INT8_BLOCK_ELEMENTS }),
    fc.integer({ min: -149, max: 117 }),
  )
  .map(([values, exponent]) => Float32Array.from(values, (value) => value * 2 ** exponent));
const tensors = fc.oneof(anything, alike);
const bytes = (values: Float32Array): Uint8Array => new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

describe.each(CODECS)('the codec %s', (_name, codec) => {
  test('encodes decoded values to the same bytes as the original values', () => {
    fc.assert(
      fc.property(tensors, (values) => {
        const frame = encode(codec, values);
        const decoded = decode(codec, frame, values.length);
        const again = encode(codec, decoded);
        expect(new Uint8Array(again)).toEqual(new Uint8Array(frame));
      }),
      { numRuns: 500 },
    );
  });

  test('adds decoded values to a sum and rounds each result once, to float32', () => {
    fc.assert(
      fc.property(alike, (values) => {
        const frame = encode(codec, values);
        const sums = values.map((value) => value / 3);
        const expected = decode(codec, frame, values.length).map((value, i) => value + sums[i]!);
        codec.addTo(sums, frame);
        expect(bytes(sums)).toEqual(bytes(expected));
      }),
    );
  });

  test('returns the residual: the given values minus the decoded values', () => {
    fc.assert(
      fc.property(alike, (values) => {
        const residual = new Float32Array(values.length).fill(9);
        const decoded = decode(codec, encode(codec, values, residual), values.length);
        expect(residual).toEqual(values.map((value, i) => value - decoded[i]!));
      }),
    );
  });

  test('returns finite residuals for any values, even for NaN and infinity', () => {
    fc.assert(
      fc.property(anything, (values) => {
        const residual = new Float32Array(values.length).fill(Number.NaN);
        encode(codec, values, residual);
        expect(residual.every(Number.isFinite)).toBe(true);
      }),
    );
  });

  test('never encodes NaN or infinity as a finite number', () => {
    fc.assert(
      fc.property(anything, (values) => {
        const decoded = decode(codec, encode(codec, values), values.length);
        values.forEach((value, i) => {
          if (!Number.isFinite(value)) expect(Number.isFinite(decoded[i]!)).toBe(false);
        });
      }),
    );
  });

  test('computes the number of elements from the size of a payload, and rejects impossible sizes', () => {
    for (let elements = 0; elements <= 3 * INT8_BLOCK_ELEMENTS + 1; elements++) {
      expect(codec.elementsOf(codec.bytesOf(elements))).toBe(elements);
    }
    const sizes = new Set(Array.from({ length: 600 }, (_, elements) => codec.bytesOf(elements)));
    for (let size = 0; size < 600; size++) expect(Number.isInteger(codec.elementsOf(size))).toBe(sizes.has(size));
    const payload = MAX_FRAME_BYTES - FRAME_HEADER_BYTES;
    expect(codec.bytesOf(codec.maxSegment)).toBeLessThanOrEqual(payload);
    expect(codec.bytesOf(codec.maxSegment)).toBeGreaterThan(0.98 * payload);
  });
});

test('fp16 keeps 11 bits of precision for values of any magnitude', () => {
  fc.assert(
    fc.property(alike, (values) => {
      const codec = codecByName('fp16')!;
      const decoded = decode(codec, encode(codec, values), values.length);
      const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      values.forEach((value, i) => {
        // The largest possible error is half a unit in the last place. It depends on the value, on
        // the segment's largest value if values become subnormal, and on the least exponent.
        const most = Math.max(2 ** -11 * Math.abs(value), 2 ** -39 * largest, 2 ** (-25 - 112));
        expect(Math.abs(value - decoded[i]!)).toBeLessThanOrEqual(most);
      });
    }),
  );
});

test("int8 has an error of at most half a scale; a block's scale is 1/127 of its largest value, rounded up", () => {
  fc.assert(
    fc.property(alike, (values) => {
      const codec = codecByName('int8')!;
      const decoded = decode(codec, encode(codec, values), values.length);
      for (let start = 0; start < values.length; start += INT8_BLOCK_ELEMENTS) {
        const block = values.subarray(start, start + INT8_BLOCK_ELEMENTS);
        const largest = block.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
        const scale = (largest / 127) * (1 + 2 ** -16);
        // Blocks whose scale would be below the least normal number become zero.
        const most = largest < 127 * 2 ** -126 ? largest : scale / 2;
        block.forEach((value, i) => expect(Math.abs(value - decoded[start + i]!)).toBeLessThanOrEqual(most));
      }
    }),
  );
});

test('int8 replaces a block with a NaN or infinite value by NaN, and changes no other block', () => {
  const codec = codecByName('int8')!;
  for (const odd of [Number.NaN, Infinity, -Infinity, 3e38]) {
    const values = new Float32Array(3 * INT8_BLOCK_ELEMENTS).fill(1);
    values[INT8_BLOCK_ELEMENTS + 3] = odd;
    const decoded = decode(codec, encode(codec, values), values.length);
    const isOdd = Array.from(values, (_, i) => Math.floor(i / INT8_BLOCK_ELEMENTS) === 1);
    expect(Array.from(decoded, Number.isNaN)).toEqual(isOdd);
  }
});

test('codecByName rejects unknown codecs', () => {
  expect(() => codecByName('int4' as 'int8')).toThrow(UsageError);
});
