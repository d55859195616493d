/**
 * Runs on a rank's page: rank 0 sends bytes along the ring to all other ranks over bare channels,
 * without frames, digests and worker.
 */
import { shareOf } from '../allreduce/bareRing.ts';
import { neighboursOf, push } from '../world/push.ts';
import type { PageRank } from '../world/rank.ts';

export async function bareChain(page: PageRank, { bytes }: { bytes: number }): Promise<{ ms: number }> {
  const { rank, worldSize } = page;
  const [left, right] = await neighboursOf(page);
  // This exchange of single bytes makes all ranks start at the same time.
  await push(left, right, shareOf(worldSize, 1));
  const startedAt = performance.now();
  const isFirst = rank === 0;
  const isLast = rank === worldSize - 1;
  await push(left, right, {
    own: isFirst ? bytes : 0,
    expected: isFirst ? 0 : bytes,
    passedOn: isFirst || isLast ? 0 : bytes,
  });
  return { ms: performance.now() - startedAt };
}
