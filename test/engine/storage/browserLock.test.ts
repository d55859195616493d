/** Locks between tabs of one browser. The simulated lock manager grants locks as browsers do. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { runUnlessOtherTabDoes } from '../../../src/engine/storage/browserLock.ts';
import { createDeferred } from '../../../src/util/deferred.ts';

/** Names of granted locks. */
let held: Set<string>;

/** The part of `navigator.locks` that is needed. No request waits for a lock. */
const locks = {
  async request(name: string, _: { ifAvailable: true }, hold: (lock: object | null) => Promise<void>): Promise<void> {
    if (held.has(name)) return hold(null);
    held.add(name);
    try {
      await hold({ name });
    } finally {
      held.delete(name);
    }
  },
};

beforeEach(() => {
  held = new Set();
  vi.stubGlobal('navigator', { locks });
});
afterEach(() => vi.unstubAllGlobals());

test('only one of several tasks with the same name runs, and the others are skipped without waiting', async () => {
  const ended = createDeferred();
  const ran: string[] = [];
  const first = runUnlessOtherTabDoes('a', async () => {
    ran.push('first');
    await ended.promise;
  });
  await runUnlessOtherTabDoes('a', async () => void ran.push('second'));
  await runUnlessOtherTabDoes('b', async () => void ran.push('other'));
  expect(ran).toEqual(['first', 'other']);
  ended.resolve();
  await first;
  await runUnlessOtherTabDoes('a', async () => void ran.push('third'));
  expect(ran).toEqual(['first', 'other', 'third']);
});

test('a task that fails runs once, rejects, and releases the lock', async () => {
  let runs = 0;
  const fail = async (): Promise<void> => {
    runs++;
    throw new Error('full');
  };
  await expect(runUnlessOtherTabDoes('a', fail)).rejects.toThrow('full');
  expect([runs, held]).toEqual([1, new Set()]);
});

test.each([
  ['has no locks', {}],
  ['blocks locks', { locks: { request: () => Promise.reject(new DOMException('Blocked.', 'SecurityError')) } }],
])('all tasks run if the browser %s', async (_, navigator) => {
  vi.stubGlobal('navigator', navigator);
  let runs = 0;
  await Promise.all([1, 2].map(() => runUnlessOtherTabDoes('a', async () => void runs++)));
  expect(runs).toBe(2);
});
