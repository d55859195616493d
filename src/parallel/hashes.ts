/** State hashes of all ranks side by side, to see that replicas agree. */
import type { ProcessGroup } from '../collectives/processGroup.ts';

/** All ranks' hashes (16 hexadecimal digits each), in rank order. */
export async function allGatherHashes(group: ProcessGroup, hash: string): Promise<string[]> {
  // A byte a float: small integers are exact.
  const mine = Float32Array.from(hash.match(/../g)!, (byte) => parseInt(byte, 16));
  const all = await group.allGather(mine);
  return all.map((bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join(''));
}

/** Ranks whose hash is not the most frequent one (the lowest rank's, on a tie); empty when all agree. */
export function dissentingRanks(hashes: readonly string[]): number[] {
  const votes = new Map<string, number>();
  for (const hash of hashes) votes.set(hash, (votes.get(hash) ?? 0) + 1);
  const majority = [...votes.entries()].reduce((best, entry) => (entry[1] > best[1] ? entry : best))[0];
  return hashes.flatMap((hash, rank) => (hash === majority ? [] : [rank]));
}
