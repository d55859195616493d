import type { Clock } from './clock.ts';
import { createDeferred } from './deferred.ts';

/** Settles like `promise`, or rejects with `expired()` after `ms` milliseconds. */
export async function withinDeadline<T>(
  clock: Clock,
  ms: number,
  promise: PromiseLike<T>,
  expired: () => Error,
): Promise<T> {
  const late = createDeferred<never>();
  const cancel = clock.after(ms, () => late.reject(expired()));
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    cancel();
  }
}

/** Settles like `promise`, or rejects with the reason of `signal` when `signal` is aborted. */
export async function unlessAborted<T>(signal: AbortSignal, promise: PromiseLike<T>): Promise<T> {
  const aborted = createDeferred<never>();
  const onabort = (): void => aborted.reject(signal.reason);
  if (signal.aborted) onabort();
  signal.addEventListener('abort', onabort);
  try {
    // The race also handles a rejection of `promise` after the abort, so it is not reported as
    // unhandled.
    return await Promise.race([aborted.promise, promise]);
  } finally {
    signal.removeEventListener('abort', onabort);
  }
}
