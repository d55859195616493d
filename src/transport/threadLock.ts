/**
 * Reports that another thread (a page or a worker) is gone. Neither ports nor workers report this.
 * The Web Locks API (https://www.w3.org/TR/web-locks/) does: a thread holds a lock while it is
 * alive, and the browser grants the lock to others as soon as the thread is gone. Browsers provide
 * locks in secure contexts only.
 */
import { createDeferred } from '../util/deferred.ts';

/** Resolves once this thread has the lock, with a function that releases it. */
export async function acquireThreadLock(name: string): Promise<() => void> {
  const held = createDeferred<() => void>();
  const released = createDeferred();
  navigator.locks
    .request(name, () => {
      held.resolve(released.resolve);
      return released.promise;
    })
    .catch(held.reject);
  return held.promise;
}

/** Calls `callback` once no thread holds the lock, unless `signal` is aborted before. */
export function onceThreadLockReleased(name: string, signal: AbortSignal, callback: () => void): void {
  // The request rejects when it is aborted or this thread ends.
  navigator.locks.request(name, { signal }, callback).catch(() => {});
}
