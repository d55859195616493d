/** Work that at most one tab of a browser does at a time. */

/**
 * Runs `task`, unless another tab of this browser is running a task of the same name. In that case
 * `task` is not run, and this function returns immediately. Browsers have no locks on pages over
 * plain http, so there every tab runs its own task.
 *
 * @throws (rejects) the errors of `task`.
 */
export async function runUnlessOtherTabDoes(name: string, task: () => Promise<void>): Promise<void> {
  if (!('locks' in navigator)) return task();
  let isAnswered = false;
  try {
    await navigator.locks.request(name, { ifAvailable: true }, async (lock) => {
      isAnswered = true;
      if (lock !== null) await task();
    });
  } catch (error) {
    if (isAnswered) throw error;
    // If locks are blocked, storage is blocked too. The task then reports that.
    await task();
  }
}
