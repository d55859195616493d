/**
 * Keeps the screen on while the page shows a run. A phone that sleeps would also suspend the page.
 */
import { effect, type ReadonlySignal } from '@preact/signals';

/**
 * Holds a screen wake lock (https://www.w3.org/TR/screen-wake-lock/) while `isWanted` is true. If
 * the browser refuses the lock, the run continues.
 */
export function keepScreenAwakeWhile(isWanted: ReadonlySignal<boolean>): void {
  let lock: Promise<WakeLockSentinel | null> | null = null;
  effect(() => {
    if (isWanted.value === (lock !== null)) return;
    if (isWanted.value) {
      lock = request();
    } else {
      const held = lock;
      lock = null;
      void held?.then((sentinel) => sentinel?.release()).catch(() => {});
    }
  });
}

async function request(): Promise<WakeLockSentinel | null> {
  try {
    return 'wakeLock' in navigator ? await navigator.wakeLock.request('screen') : null;
  } catch {
    // The browser refuses if the battery is low or a policy forbids the lock.
    return null;
  }
}
