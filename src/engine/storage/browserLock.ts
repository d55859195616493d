/** Work that at most one tab of a browser does at a time. */

/**
 * Runs `task` unless another tab of this browser runs one of the same name just now; it does not
 * wait for that tab. Where the browser has no locks, as on pages that came over plain http, every
 * tab runs its own.
 *
 * @throws (rejects) what `task` rejects with.
 */
export async function whileAlone(name: string, task: () => Promise<void>): Promise<void> {
  if (!('locks' in navigator)) return task();
  let isAnswered = false;
  try {
    await navigator.locks.request(name, { ifAvailable: true }, async (lock) => {
      isAnswered = true;
      if (lock !== null) await task();
    });
  } catch (error) {
    if (isAnswered) throw error;
    // Where locks are blocked, storage is too, and says so.
    await task();
  }
}
