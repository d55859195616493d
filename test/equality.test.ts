/** Comparisons of typed arrays in tests are as exact as those of vitest. */
import { expect, test } from 'vitest';
import { haveEqualBytes } from './equality.ts';

test.each<[string, unknown, unknown]>([
  ['another number', Float32Array.of(1, 2), Float32Array.of(1, 3)],
  ['zeros of another sign', Float32Array.of(0), Float32Array.of(-0)],
  ['another length', Float32Array.of(1), Float32Array.of(1, 0)],
  ['another type', Float32Array.of(1), Float64Array.of(1)],
  ['another type with the same bytes', Uint8Array.of(1), Int8Array.of(1)],
  ['another number in a list', [Int32Array.of(1), Int32Array.of(2)], [Int32Array.of(1), Int32Array.of(3)]],
])('typed arrays with %s are not equal', (_, a, b) => {
  expect(haveEqualBytes(a, b)).toBeUndefined();
  expect(a).not.toEqual(b);
  expect(a).not.toStrictEqual(b);
  expect({ a }).not.toMatchObject({ a: b });
});

test('parts of buffers, NaN and empty arrays are compared by value', () => {
  const parts = Float32Array.of(1, NaN, 1, NaN);
  expect(parts.subarray(0, 2)).toEqual(parts.slice(2));
  expect([new Uint8Array(0)]).toEqual([new Uint8Array(0)]);
  const bits = new Float32Array(Uint32Array.of(0x7fc00001).buffer);
  expect(bits).toEqual(Float32Array.of(NaN));
});

test('the error for different arrays contains the numbers', () => {
  expect(() => expect(Float32Array.of(1, 2)).toEqual(Float32Array.of(1, 3))).toThrow(/deeply equal/);
});
