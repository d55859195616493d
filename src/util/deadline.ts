import type { Clock } from './clock.ts';
import { deferred } from './deferred.ts';

/** Resolves like `promise`; rejects with `expired()` after `ms` milliseconds. */
export async function within<T>(clock: Clock, ms: number, promise: PromiseLike<T>, expired: () => Error): Promise<T> {
  const late = deferred<never>();
  const cancel = clock.after(ms, () => late.reject(expired()));
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    cancel();
  }
}

/** Resolves like `promise`; rejects with `signal`'s reason when it is aborted. */
export async function unlessAborted<T>(signal: AbortSignal, promise: PromiseLike<T>): Promise<T> {
  const aborted = deferred<never>();
  const onabort = (): void => aborted.reject(signal.reason);
  if (signal.aborted) onabort();
  signal.addEventListener('abort', onabort);
  try {
    // The race handles a rejection of `promise` also if that comes too late.
    return await Promise.race([aborted.promise, promise]);
  } finally {
    signal.removeEventListener('abort', onabort);
  }
}
