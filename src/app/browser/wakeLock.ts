/** Keeps the screen on while it shows a run: a phone that sleeps suspends the page too. */
import { effect, type ReadonlySignal } from '@preact/signals';

/**
 * Holds a screen wake lock (https://www.w3.org/TR/screen-wake-lock/) while `isWanted`. A browser
 * may refuse; the run continues.
 */
export function keepAwake(isWanted: ReadonlySignal<boolean>): void {
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
    // The battery is low, or a policy forbids it.
    return null;
  }
}
