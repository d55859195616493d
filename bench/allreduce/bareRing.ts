/**
 * Sends as many bytes as an all-reduce around the same ring, but over bare channels, without sums
 * and frames: data channels of the page, or WebSockets of the worker over a bare relay. In each of
 * 2(n-1) steps, every rank sends a chunk to its right neighbour. Messages are forwarded as soon as
 * they arrive.
 */
import { neighboursOf, push, type ChannelRank, type Share } from '../world/push.ts';
import type { WorkerRank } from '../world/rank.ts';

interface BareRingArgs {
  /** Bytes of the whole tensor. */
  bytes: number;
  /**
   * Number of simulated all-reduces, not including the first exchange that synchronizes the ranks.
   */
  ops: number;
}

export async function bareRing(page: ChannelRank, { bytes, ops }: BareRingArgs): Promise<{ ms: number[] }> {
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

export async function relayRing(
  { rank, worldSize, relayTo }: WorkerRank,
  args: BareRingArgs,
): Promise<{ ms: number[] }> {
  return bareRing({ rank, worldSize, channelTo: relayTo }, args);
}

/**
 * Returns what a rank sends, receives and forwards in one all-reduce. The chunk of the last step is
 * not forwarded.
 */
export function shareOf(worldSize: number, chunkBytes: number): Share {
  const expected = 2 * (worldSize - 1) * chunkBytes;
  return { own: chunkBytes, expected, passedOn: expected - chunkBytes };
}
