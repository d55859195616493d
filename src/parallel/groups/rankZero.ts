/** Work that one rank does for all ranks, such as logs, files, and downloads that fill a cache. */
import type { WaitOptions } from '../../collectives/options.ts';
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { errorMessageOf, PeergradError } from '../../util/errors.ts';
import { runAndAbortGroupOnSignal } from './abortGroupOnSignal.ts';

/**
 * Runs `fn` on rank 0 and resolves there with its result; resolves with undefined immediately on
 * other ranks. This is Lightning's `rank_zero_only`
 * (https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.utilities.rank_zero.html). Ranks
 * do not wait for each other, so only rank 0 rejects if `fn` fails.
 */
export async function rankZeroOnly<T>(group: ProcessGroup, fn: () => T | PromiseLike<T>): Promise<T | undefined> {
  return group.rank === 0 ? await fn() : undefined;
}

/**
 * Runs `fn` on rank 0, and then on all other ranks at the same time. So the other ranks can find
 * rank 0's data in a cache. This is Lightning Fabric's `rank_zero_first`
 * (https://lightning.ai/docs/fabric/stable/api/fabric_methods.html). Every rank must call it; each
 * resolves with its own result.
 *
 * @param options `timeoutMs`: longest time that the other ranks wait for rank 0. The default is the
 *   group's timeout, which may be too short for a download. `signal` ends the wait and the group
 *   when it is aborted; a running `fn` is not ended.
 * @throws (rejects) errors of `fn` and of {@link ProcessGroup.broadcastObject}. If `fn` fails on
 * rank 0, the other ranks do not run `fn`. They reject with a PeergradError that contains the
 * message of rank 0's error. The group stays usable.
 *
 * @example
 * ```ts
 * // Rank 0 fills the browser's cache, and the other ranks read it.
 * const text = await rankZeroFirst(group, () => Promise.resolve('downloaded'));
 * ```
 */
export async function rankZeroFirst<T>(
  group: ProcessGroup,
  fn: () => T | PromiseLike<T>,
  options: WaitOptions = {},
): Promise<T> {
  const source = group.ranks[0]!;
  const { timeoutMs, signal } = options;
  if (group.rank === 0) {
    return runAndAbortGroupOnSignal(group, signal, 'rankZeroFirst', async () => {
      let result: T;
      try {
        result = await fn();
      } catch (error) {
        // If this broadcast fails too, the error of `fn` is still the one to report.
        await group.broadcastObject(errorMessageOf(error), source, { timeoutMs }).catch(() => {});
        throw error;
      }
      await group.broadcastObject(null, source, { timeoutMs });
      return result;
    });
  }
  const reason = await group.broadcastObject<string | null>(undefined, source, options);
  if (reason !== null) {
    throw new PeergradError(`Rank 0 failed in rankZeroFirst: ${reason}`, {
      rank: group.rank,
      worldSize: group.worldSize,
    });
  }
  return await fn();
}
