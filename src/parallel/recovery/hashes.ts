/** State hashes of all ranks, to compare replicas. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { hexOf } from '../../util/hex.ts';

/** Gathers the hashes of all ranks (16 hexadecimal digits each), in rank order. */
export async function allGatherHashes(group: ProcessGroup, hash: string): Promise<string[]> {
  const mine = Uint8Array.from(hash.match(/../g)!, (byte) => parseInt(byte, 16));
  const all = await group.allGather(mine);
  return all.map((bytes) => hexOf(bytes));
}
