/** Work that one rank does for all: logs and files, and downloads that fill a cache. */
import type { OpOptions, ProcessGroup } from '../collectives/processGroup.ts';
import { messageOf, PeergradError } from '../util/errors.ts';

/**
 * Runs `fn` on rank 0 only and resolves with its result, elsewhere at once with undefined. As Lightning's `rank_zero_only`
 * (https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.utilities.rank_zero.html). No rank waits for another, so a
 * failure is rank 0's alone.
 */
export async function rankZeroOnly<T>(group: ProcessGroup, fn: () => T | PromiseLike<T>): Promise<T | undefined> {
  return group.rank === 0 ? await fn() : undefined;
}

/** UTF-16 units of rank 0's reason that the others hear of; the rest is cut off. */
const MAX_REASON_LENGTH = 500;

/**
 * Runs `fn` on rank 0 and, when it is done, on all others at once, which find what rank 0 has put into a cache. As Lightning
 * Fabric's `rank_zero_first` (https://lightning.ai/docs/fabric/stable/api/fabric_methods.html). Every rank must call it; each
 * resolves with its own result.
 *
 * @param options `timeoutMs`: how long the others wait for rank 0; the group's by default, which a download may well exceed.
 * @throws (rejects) what `fn` throws; where it failed on rank 0, PeergradError with its message on all others, which do not
 *   run it, and the group can still be used; what {@link ProcessGroup.broadcast} rejects with.
 */
export async function rankZeroFirst<T>(
  group: ProcessGroup,
  fn: () => T | PromiseLike<T>,
  options: OpOptions = {},
): Promise<T> {
  // Of one size whatever happens, as the others cannot know it: whether rank 0 failed, the length of the reason, the reason.
  const outcome = new Float32Array(2 + MAX_REASON_LENGTH);
  if (group.rank === 0) {
    let result: T;
    try {
      result = await fn();
    } catch (error) {
      const reason = messageOf(error).slice(0, MAX_REASON_LENGTH);
      outcome.set([1, reason.length, ...Array.from({ length: reason.length }, (_, i) => reason.charCodeAt(i))]);
      // Where this fails too, the first error is the one to show.
      await group.broadcast(outcome, group.ranks[0]!, options).then(null, () => {});
      throw error;
    }
    await group.broadcast(outcome, group.ranks[0]!, options);
    return result;
  }
  await group.broadcast(outcome, group.ranks[0]!, options);
  const [failed, length = 0] = outcome;
  if (failed) {
    const reason = String.fromCharCode(...outcome.subarray(2, 2 + length));
    throw new PeergradError(`Rank 0 failed at what it had to do before the others: ${reason}`, {
      rank: group.rank,
      worldSize: group.worldSize,
    });
  }
  return await fn();
}
