/** Work that one rank does for all: logs and files, and downloads that fill a cache. */
import type { OpOptions } from '../collectives/options.ts';
import type { ProcessGroup } from '../collectives/processGroup.ts';
import { messageOf, PeergradError } from '../util/errors.ts';

/**
 * Runs `fn` on rank 0 only and resolves with its result, elsewhere at once with undefined. As
 * Lightning's `rank_zero_only`
 * (https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.utilities.rank_zero.html). No
 * rank waits for another, so a failure is rank 0's alone.
 */
export async function rankZeroOnly<T>(group: ProcessGroup, fn: () => T | PromiseLike<T>): Promise<T | undefined> {
  return group.rank === 0 ? await fn() : undefined;
}

/**
 * Runs `fn` on rank 0 and, when it is done, on all others at once, which find what rank 0 has put
 * into a cache. As Lightning Fabric's `rank_zero_first`
 * (https://lightning.ai/docs/fabric/stable/api/fabric_methods.html). Every rank must call it; each
 * resolves with its own result.
 *
 * @param options `timeoutMs`: how long the others wait for rank 0; the group's by default, which a
 *   download may well exceed.
 * @throws (rejects) what `fn` throws; where it failed on rank 0, PeergradError with its message on
 *   all others, which do not run it, and the group can still be used; what {@link
 *   ProcessGroup.broadcastObject} rejects with.
 */
export async function rankZeroFirst<T>(
  group: ProcessGroup,
  fn: () => T | PromiseLike<T>,
  options: Pick<OpOptions, 'timeoutMs'> = {},
): Promise<T> {
  const source = group.ranks[0]!;
  if (group.rank === 0) {
    let result: T;
    try {
      result = await fn();
    } catch (error) {
      // Where this fails too, the first error is the one to show.
      await group.broadcastObject(messageOf(error), source, options).catch(() => {});
      throw error;
    }
    await group.broadcastObject(null, source, options);
    return result;
  }
  const reason = await group.broadcastObject<string | null>(undefined, source, options);
  if (reason !== null) {
    throw new PeergradError(`Rank 0 failed at what it had to do before the others: ${reason}`, {
      rank: group.rank,
      worldSize: group.worldSize,
    });
  }
  return await fn();
}
