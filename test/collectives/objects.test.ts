/** Tests of the encoding of values as bytes for object collectives. */
import { describe, expect, test } from 'vitest';
import { decodeObject, encodeObject } from '../../src/collectives/objects/encoding.ts';

const SECRET = 'other data of the buffer';
const roundTrip = (value: unknown): unknown => decodeObject(encodeObject(value));

/** Returns a view of a buffer that also holds other data. */
function surrounded(buffer: ArrayBuffer | SharedArrayBuffer): Uint8Array {
  const all = new Uint8Array(buffer);
  all.set(new TextEncoder().encode(SECRET), 24);
  return all;
}

describe('a view of a part of its buffer', () => {
  test.each([
    ['Uint8Array', (buffer: ArrayBuffer) => new Uint8Array(buffer, 8, 3)],
    ['Float64Array', (buffer: ArrayBuffer) => new Float64Array(buffer, 8, 2)],
    ['BigInt64Array', (buffer: ArrayBuffer) => new BigInt64Array(buffer, 0, 1)],
    ['DataView', (buffer: ArrayBuffer) => new DataView(buffer, 3, 5)],
    ['Buffer of a pool', (buffer: ArrayBuffer) => Buffer.from(buffer, 16, 8)],
    ['empty Int32Array', (buffer: ArrayBuffer) => new Int32Array(buffer, 4, 0)],
  ])('arrives as %s, without the rest of its buffer', (_name, viewOf) => {
    const view = viewOf(surrounded(new ArrayBuffer(1000)).buffer as ArrayBuffer);
    new Uint8Array(view.buffer, view.byteOffset, view.byteLength).fill(7);
    expect(encodeObject(view).length).toBeLessThan(100);
    const received = roundTrip([view, view]) as [ArrayBufferView, ArrayBufferView];
    expect(received[0].byteLength).toBe(view.byteLength);
    expect(received[0].buffer.byteLength).toBe(view.byteLength);
    expect(new Uint8Array(received[0].buffer)).toEqual(new Uint8Array(view.byteLength).fill(7));
    expect(Object.prototype.toString.call(received[0])).toBe(Object.prototype.toString.call(view));
    expect(received[1]).toBe(received[0]);
  });

  test('arrives with its values, even if its buffer is a SharedArrayBuffer', () => {
    const view = surrounded(new SharedArrayBuffer(1000)).subarray(24, 28);
    expect(roundTrip(view)).toEqual(new TextEncoder().encode(SECRET.slice(0, 4)));
  });
});

test('two views of one whole buffer still share a buffer when they arrive', () => {
  const words = Uint32Array.of(1, 2);
  const [received, bytes] = roundTrip([words, new Uint8Array(words.buffer)]) as [Uint32Array, Uint8Array];
  expect(received).toEqual(words);
  expect(bytes.buffer).toBe(received.buffer);
});

describe('bytes that a rank receives as an object', () => {
  const laughs = JSON.stringify([...Array.from({ length: 40 }, (_, i) => [i + 1, i + 1]), 'ha']);
  test.each([
    ['a sparse array of ten million holes', '[[-7,10000000]]', /holes/],
    ['a nested sparse array', '[{"a":1},["Set",2],[-7,4000000000]]', /holes/],
    ['a hole', '[[-2,1],1]', /holes/],
    ['a BigInt with a million digits', `[["BigInt","${'9'.repeat(1_000_000)}"]]`, /BigInt/],
    ['a BigInt in a Map', `[["Map",1,1],["BigInt","${'9'.repeat(20_000)}"]]`, /BigInt/],
    ['references that double forty times', laughs, /too often/],
    ['a RegExp', '[["RegExp","(a+)+$",""]]', /type RegExp/],
    ['a URL', '[["URL","https://example.com"]]', /type URL/],
    ['nesting that is too deep', JSON.stringify(Array.from({ length: 200_000 }, (_, i) => [i + 1])), /cannot be read/],
  ])('are refused if they encode %s', (_what, text, message) => {
    expect(() => decodeObject(new TextEncoder().encode(text))).toThrow(message);
  });
});

test('values of all supported types arrive as they were sent', () => {
  const value = {
    map: new Map<unknown, unknown>([[new Set([1, undefined]), -0]]),
    date: new Date(5),
    big: -(2n ** 80n),
    arrays: [new Uint8ClampedArray(2), new BigUint64Array(1), Float32Array.of(1.5), new Int16Array(3)],
    bytes: new ArrayBuffer(4),
    bare: Object.assign(Object.create(null), { x: NaN }),
    list: [null, true, 'a', [], {}],
  };
  expect(roundTrip(value)).toEqual(value);
});

test.each([
  ['an array with holes', Array(3), /holes/],
  ['a RegExp', { pattern: /a/ }, /type RegExp/],
])('a rank refuses to send %s', (_what, value, message) => {
  expect(() => encodeObject(value)).toThrow(message);
});
