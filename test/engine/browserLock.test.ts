/** Locks between tabs of one browser, over a lock manager that grants as browsers do. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { BrowserLock } from '../../src/engine/browserLock.ts';

/** Names of locks that are held. */
let held: Set<string>;

/** `navigator.locks`, as far as it is used: nobody waits for a lock. */
const locks = {
  async request(name: string, _: { ifAvailable: true }, hold: (lock: object | null) => Promise<void>): Promise<void> {
    if (held.has(name)) return hold(null);
    held.add(name);
    await hold({ name });
    held.delete(name);
  },
};

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

beforeEach(() => {
  held = new Set();
  vi.stubGlobal('navigator', { locks });
});
afterEach(() => vi.unstubAllGlobals());

test('one of several holders has a lock, as long as it likes', async () => {
  const [first, second, other] = [new BrowserLock('a'), new BrowserLock('a'), new BrowserLock('b')];
  expect(await Promise.all([first.take(), second.take(), other.take()])).toEqual([true, false, true]);
  expect(await Promise.all([first.take(), second.take()])).toEqual([true, false]);
});

test('a lock that is released goes to another, and not back', async () => {
  const [first, second] = [new BrowserLock('a'), new BrowserLock('a')];
  await first.take();
  first.release();
  await settle();
  expect(await first.take()).toBe(false);
  expect(await second.take()).toBe(true);
});

test('a lock that is released before it was taken stays free', async () => {
  const lock = new BrowserLock('a');
  lock.release();
  expect(await lock.take()).toBe(false);
  expect(held).toEqual(new Set());
});

test.each([
  ['has no locks', {}],
  ['blocks them', { locks: { request: () => Promise.reject(new DOMException('Blocked.', 'SecurityError')) } }],
])('everyone holds a lock where the browser %s', async (_, navigator) => {
  vi.stubGlobal('navigator', navigator);
  expect(await Promise.all([new BrowserLock('a').take(), new BrowserLock('a').take()])).toEqual([true, true]);
});
