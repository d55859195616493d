/** Work that at most one tab of a browser does at a time. */

/**
 * Runs `task` unless another tab of this browser runs one of the same name; it does not wait for
 * that tab. If the browser has no locks, as on pages over plain http, every tab runs its own.
 *
 * @throws (rejects) the errors of `task`.
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
    // If locks are blocked, so is storage, which reports it.
    await task();
  }
}
