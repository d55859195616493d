/** Ends a call of several collectives by an AbortSignal. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { checkSignalNotAborted, failGroupOnAbort } from '../../collectives/work.ts';

/**
 * Runs `main`, which uses collectives of `group`. When the signal is aborted, the group fails on
 * every rank with AbortError, which ends the collectives of `main`. If the signal is already
 * aborted, `main` is not called.
 *
 * @param call name of the call, for the error.
 */
export async function runAndAbortGroupOnSignal<T>(
  group: ProcessGroup,
  signal: AbortSignal | undefined,
  call: string,
  main: () => Promise<T>,
): Promise<T> {
  if (!signal) return main();
  const rank = group.ranks[group.rank] ?? -1;
  checkSignalNotAborted(signal, rank, call);
  const result = main();
  failGroupOnAbort({ rank, fail: (error) => group.abort(error) }, signal, call, result);
  return result;
}
