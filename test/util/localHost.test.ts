import { expect, test } from 'vitest';
import { isLocalOnlyHost } from '../../src/util/localHost.ts';

test('isLocalOnlyHost recognizes hosts that only this machine can reach', () => {
  expect(['localhost', '127.0.0.1', '[::1]', 'a.localhost'].every(isLocalOnlyHost)).toBe(true);
  expect(['192.168.1.4', 'peergrad.example', '[fe80::1]'].some(isLocalOnlyHost)).toBe(false);
});
