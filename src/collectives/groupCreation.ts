/** Creation of subgroups. */
import { MismatchError } from '../util/errors.ts';
import { mixSeed } from '../util/rng.ts';

interface World {
  readonly ranks: readonly number[];
  readonly worldSize: number;
  allGather(tensor: Uint32Array, options: { timeoutMs: number }): PromiseLike<Uint32Array[]>;
  abort(error: Error): void;
}

/**
 * Resolves once all ranks of the world have passed the same members of a new group.
 *
 * @throws (rejects) MismatchError if two ranks passed different members. The error ends the world.
 */
export async function agreeOnMembers(
  world: World,
  members: readonly number[],
  rank: number,
  timeoutMs: number,
): Promise<void> {
  const digests = await world.allGather(Uint32Array.of(mixSeed(...members)), { timeoutMs });
  const other = digests.findIndex(([digest]) => digest !== digests[0]![0]);
  if (other < 0) return;
  const error = new MismatchError(
    `newGroup was called with different ranks on rank ${world.ranks[0]} and on rank ${world.ranks[other]}. ` +
      `Rank ${rank} passed ${members.join(', ')}. Pass the same ranks on every rank.`,
    { rank, worldSize: world.worldSize },
  );
  world.abort(error);
  throw error;
}
