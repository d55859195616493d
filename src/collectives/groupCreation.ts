/** Creation of subgroups. */
import { MismatchError, UsageError } from '../util/errors.ts';
import { mixSeed } from '../util/rng.ts';
import type { WaitOptions } from './options.ts';

interface ParentGroup {
  readonly ranks: readonly number[];
  readonly worldSize: number;
  allGather(tensor: Uint32Array, options: WaitOptions): PromiseLike<Uint32Array[]>;
  abort(error: Error): void;
}

/**
 * Resolves once all ranks of the world have passed the same members of a new group.
 *
 * @throws (rejects) MismatchError if two ranks passed different members. The error ends the world.
 */
export async function agreeOnMembers(
  world: ParentGroup,
  members: readonly number[],
  rank: number,
  options: WaitOptions,
): Promise<void> {
  const digests = await world.allGather(Uint32Array.of(mixSeed(...members)), options);
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

/**
 * Divides a world into groups of `size` consecutive ranks, and creates all of them.
 *
 * @returns this rank's group, and all groups.
 * @throws (rejects) UsageError if `size` does not divide the world size.
 */
export async function createSubgroups<Group extends { destroy(): void }>(
  { rank, worldSize }: { readonly rank: number; readonly worldSize: number },
  size: number,
  newGroup: (ranks: readonly number[]) => Promise<Group>,
): Promise<[mine: Group, all: Group[]]> {
  if (!Number.isInteger(size) || size < 1 || worldSize % size !== 0) {
    throw new UsageError(`A world of ${worldSize} ranks cannot be divided into groups of ${size}.`);
  }
  const groups: Group[] = [];
  try {
    for (let first = 0; first < worldSize; first += size) {
      groups.push(await newGroup(Array.from({ length: size }, (_, i) => first + i)));
    }
  } catch (error) {
    for (const group of groups) group.destroy();
    throw error;
  }
  return [groups[Math.floor(rank / size)]!, groups];
}
