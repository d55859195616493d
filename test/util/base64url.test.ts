import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fromBase64url, toBase64url } from '../../src/util/base64url.ts';

test('base64url is that of Node, and is read again', () => {
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      const text = toBase64url(bytes);
      expect([text, [...fromBase64url(text)]]).toEqual([Buffer.from(bytes).toString('base64url'), [...bytes]]);
    }),
  );
});

test('text that is not base64url is rejected', () => {
  expect(() => fromBase64url('!')).toThrow(DOMException);
});
