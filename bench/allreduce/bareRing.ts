/**
 * Runs on a rank's page: sends as many bytes as an all-reduce around the same ring, but over bare
 * channels, without sums, frames and worker. In each of 2(n-1) steps, every rank sends a chunk to
 * its right neighbour. Messages are forwarded as soon as they arrive.
 */
import { neighboursOf, push, type Share } from '../world/push.ts';
import type { PageRank } from '../world/rank.ts';

interface BareRingArgs {
  /** Bytes of the whole tensor. */
  bytes: number;
  /**
   * Number of simulated all-reduces, not including the first exchange that synchronizes the ranks.
   */
  ops: number;
}

export async function bareRing(page: PageRank, { bytes, ops }: BareRingArgs): Promise<{ ms: number[] }> {
  const { worldSize } = page;
  const [left, right] = await neighboursOf(page);
  // This exchange of single bytes makes all ranks start at the same time.
  await push(left, right, shareOf(worldSize, 1));
  const ms: number[] = [];
  let last = performance.now();
  for (let op = 0; op < ops; op++) {
    await push(left, right, shareOf(worldSize, Math.ceil(bytes / worldSize)));
    const now = performance.now();
    ms.push(now - last);
    last = now;
  }
  return { ms };
}

/**
 * Returns what a rank sends, receives and forwards in one all-reduce. The chunk of the last step is
 * not forwarded.
 */
export function shareOf(worldSize: number, chunkBytes: number): Share {
  const expected = 2 * (worldSize - 1) * chunkBytes;
  return { own: chunkBytes, expected, passedOn: expected - chunkBytes };
}
