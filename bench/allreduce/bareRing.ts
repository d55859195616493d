/**
 * Runs on a rank's page: the same bytes around the same ring over bare channels, without sums,
 * frames and worker. In 2(n-1) steps every rank sends a chunk to its right, and forwards each
 * message on arrival.
 */
import { neighboursOf, push, type Share } from '../world/push.ts';
import type { PageRank } from '../world/rank.ts';

interface BareRingArgs {
  /** Bytes of the whole tensor. */
  bytes: number;
  /** Number of all-reduces, after the ranks have met. */
  ops: number;
}

export async function bareRing(page: PageRank, { bytes, ops }: BareRingArgs): Promise<{ ms: number[] }> {
  const { worldSize } = page;
  const [left, right] = await neighboursOf(page);
  // All ranks start together.
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

/** Chunks of the last step are not forwarded. */
export function shareOf(worldSize: number, chunkBytes: number): Share {
  const expected = 2 * (worldSize - 1) * chunkBytes;
  return { own: chunkBytes, expected, passedOn: expected - chunkBytes };
}
