import { describe, expect, test } from 'vitest';
import { UsageError } from '../../src/util/errors.ts';
import { fromHalf, toHalf } from '../../src/util/float16.ts';
import { createRng } from '../../src/util/rng.ts';

const ALL_HALVES = Uint16Array.from({ length: 65_536 }, (_, i) => i);
const INFINITY = 0x7c00;

/** Returns the value of a half's bits, by the definition in the standard. */
function valueOf(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  if (exponent === 0) return (sign * fraction) / 2 ** 24;
  return sign * 2 ** (exponent - 15) * (1 + fraction / 1024);
}

/**
 * Returns the nearest half, by bisection over all positive halves. If two halves are equally near,
 * it returns the even one.
 */
function nearest(value: number): number {
  const sign = Object.is(value, -0) || value < 0 ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  // Rounding precedes the check for overflow. With an unlimited exponent, the next half after 65504
  // would be 65536.
  const at = (half: number): number => (half === INFINITY ? 65_536 : valueOf(half));
  let low = 0;
  let high = INFINITY;
  if (magnitude >= at(high)) return sign | INFINITY;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (at(middle) <= magnitude) low = middle;
    else high = middle;
  }
  const below = magnitude - at(low);
  const above = at(high) - magnitude;
  return sign | (below < above || (below === above && low % 2 === 0) ? low : high);
}

function halfOf(value: number): number {
  return toHalf(Float32Array.of(value))[0]!;
}

describe('the float16 conversion:', () => {
  test('every half has the value that the standard defines', () => {
    const floats = fromHalf(ALL_HALVES);
    const wrong = ALL_HALVES.filter((bits) => !Object.is(floats[bits], valueOf(bits)));
    expect([...wrong]).toEqual([]);
  });

  test('every half is the same after conversion to float32 and back, including NaNs with their payloads', () => {
    expect(toHalf(fromHalf(ALL_HALVES))).toEqual(ALL_HALVES);
  });

  test('a value midway between two halves is rounded to the even half, and others to the nearest half', () => {
    const middles = Float32Array.from({ length: INFINITY - 1 }, (_, i) => (valueOf(i) + valueOf(i + 1)) / 2);
    const even = Uint16Array.from(middles, (_, i) => (i % 2 === 0 ? i : i + 1));
    const step = (by: number): Float32Array =>
      new Float32Array(new Uint32Array(middles.buffer).map((bits) => bits + by).buffer);
    expect(toHalf(middles)).toEqual(even);
    expect(toHalf(step(-1))).toEqual(Uint16Array.from(middles.keys()));
    expect(toHalf(step(1))).toEqual(Uint16Array.from(middles.keys(), (i) => i + 1));
  });

  test('values from 65520 on become infinite', () => {
    expect(halfOf(65_504)).toBe(0x7bff);
    expect(halfOf(65_519.996)).toBe(0x7bff);
    expect(halfOf(65_520)).toBe(INFINITY);
    expect(halfOf(-65_520)).toBe(0x8000 | INFINITY);
    expect(halfOf(3e38)).toBe(INFINITY);
    expect(halfOf(Infinity)).toBe(INFINITY);
    expect(halfOf(-Infinity)).toBe(0x8000 | INFINITY);
  });

  test('subnormal numbers, signed zeros and NaN are kept, and numbers that are too small become zero', () => {
    expect(halfOf(2 ** -24)).toBe(1);
    expect(halfOf(2 ** -25)).toBe(0);
    expect(halfOf(-(2 ** -25) - 2 ** -48)).toBe(0x8001);
    expect(halfOf(2 ** -14)).toBe(0x400);
    expect(halfOf(2 ** -149)).toBe(0);
    expect(halfOf(0)).toBe(0);
    expect(halfOf(-0)).toBe(0x8000);
    expect(valueOf(halfOf(NaN))).toBeNaN();
    // This NaN has its payload only in the dropped bits.
    expect(toHalf(new Float32Array(Uint32Array.of(0x7f800001, 0xffc00000).buffer))).toEqual(
      Uint16Array.of(0x7e00, 0xfe00),
    );
  });

  test('any float32 is rounded as by the slow reference', () => {
    const rng = createRng(7);
    // Random mantissas with every exponent, from those that all become zero to those that all
    // become infinite.
    const bits = Uint32Array.from({ length: 200_000 }, () => {
      const exponent = 127 - 30 + rng.below(50);
      return ((rng.below(2) << 31) | (exponent << 23) | rng.below(2 ** 23)) >>> 0;
    });
    const floats = new Float32Array(bits.buffer);
    expect(toHalf(floats)).toEqual(Uint16Array.from(floats, nearest));
  });

  test('the result can be written into a given array of the same length, even into a part of a buffer', () => {
    const halves = new Uint16Array(6);
    const floats = new Float32Array(6);
    expect(toHalf(Float32Array.of(9, 1, -2).subarray(1), halves.subarray(3, 5)).buffer).toBe(halves.buffer);
    fromHalf(halves.subarray(3, 5), floats.subarray(1, 3));
    expect([...floats]).toEqual([0, 1, -2, 0, 0, 0]);
    expect(() => toHalf(new Float32Array(2), new Uint16Array(3))).toThrow(UsageError);
    expect(() => fromHalf(new Uint16Array(2), new Float32Array(1))).toThrow('of the same length');
    expect(toHalf(new Float32Array(0))).toHaveLength(0);
  });
});
