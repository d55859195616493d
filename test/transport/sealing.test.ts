import { describe, expect, test } from 'vitest';
import { createLinkKeys, deriveFrameSeals } from '../../src/transport/sealing.ts';
import { ProtocolError } from '../../src/util/errors.ts';
import { errorOf } from '../errorOf.ts';

const { subtle } = globalThis.crypto;
const CHANNEL = 'c'.repeat(32);
const TAG_BYTES = 16;

/** Returns the seals of both ends, the initiator's first. */
async function sealsOf(channels: readonly [string, string] = [CHANNEL, CHANNEL]) {
  const [a, b] = await Promise.all([createLinkKeys(subtle), createLinkKeys(subtle)]);
  return Promise.all([
    deriveFrameSeals(subtle, a, b.publicKey, channels[0], true),
    deriveFrameSeals(subtle, b, a.publicKey, channels[1], false),
  ]);
}

const bytes = (...values: number[]): ArrayBuffer => Uint8Array.from(values).buffer;
const valuesOf = (buffers: readonly ArrayBuffer[]): number[][] => buffers.map((one) => [...new Uint8Array(one)]);

describe('the keys of a link through the server', () => {
  test('are 87 characters in a signal', async () => {
    expect((await createLinkKeys(subtle)).publicKey).toMatch(/^[\w-]{87}$/);
  });

  test.each([
    ['no base64url', '!'.repeat(87)],
    ['no point of the curve', 'BA' + 'A'.repeat(85)],
  ])('are rejected if the other one is %s', async (_what, key) => {
    const error = await errorOf(deriveFrameSeals(subtle, await createLinkKeys(subtle), key, CHANNEL, true));
    expect(error).toBeInstanceOf(ProtocolError);
  });
});

describe('a sealed message', () => {
  test('is opened by the other end, in both directions', async () => {
    const [a, b] = await sealsOf();
    const there = await b.open(await a.seal(bytes(1, 2, 3)));
    const back = await a.open(await b.seal(bytes(4)));
    expect(valuesOf([there, back])).toEqual([[1, 2, 3], [4]]);
  });

  test('may be sealed and opened at the same time as others, in order', async () => {
    const [a, b] = await sealsOf();
    const sealed = await Promise.all(Array.from({ length: 50 }, (_, i) => a.seal(bytes(i))));
    const opened = await Promise.all(sealed.map((message) => b.open(message)));
    expect(valuesOf(opened)).toEqual(Array.from({ length: 50 }, (_, i) => [i]));
  });

  test('has the bytes that the frame had when it was sealed', async () => {
    const [a, b] = await sealsOf();
    const frame = bytes(1, 2);
    const sealing = a.seal(frame);
    new Uint8Array(frame).fill(9);
    expect(valuesOf([await b.open(await sealing)])).toEqual([[1, 2]]);
  });

  test('may be empty', async () => {
    const [a, b] = await sealsOf();
    const sealed = await a.seal(new ArrayBuffer(0));
    expect([sealed.byteLength, (await b.open(sealed)).byteLength]).toEqual([TAG_BYTES, 0]);
  });

  test('does not open if the two ends name different links', async () => {
    const [a, b] = await sealsOf([CHANNEL, 'd'.repeat(32)]);
    expect(await errorOf(b.open(await a.seal(bytes(1))))).toBeInstanceOf(ProtocolError);
  });

  test('does not open with the keys of another link', async () => {
    const [[a], [, b]] = [await sealsOf(), await sealsOf()];
    expect(await errorOf(b.open(await a.seal(bytes(1))))).toBeInstanceOf(ProtocolError);
  });

  test('does not open at the end that has sealed it', async () => {
    const [a] = await sealsOf();
    expect(await errorOf(a.open(await a.seal(bytes(1))))).toBeInstanceOf(ProtocolError);
  });
});
