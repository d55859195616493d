/**
 * On a rank's page: the same bytes round the same ring over bare channels, without sums, frames and worker. In 2(n-1) steps every rank
 * sends a chunk to its right, and a message goes on as soon as it has come.
 */
import { deferred } from '../../src/util/deferred.ts';
import type { BareChannel } from '../world/bareChannels.ts';
import type { PageRank } from '../world/rank.ts';

export interface BareRingArgs {
  /** Of the whole tensor. */
  bytes: number;
  /** Times round the ring, after ranks have met. */
  ops: number;
}

/** As large as a frame of ours. */
const MESSAGE_BYTES = 64 * 1024;
/** Handed to a channel before messages wait here, and when to go on: the best of those tried, from 256 KiB to 8 MiB. */
const HIGH_BYTES = 1024 * 1024;
const LOW_BYTES = 0;

export async function bareRing(page: PageRank, { bytes, ops }: BareRingArgs): Promise<{ ms: number[] }> {
  const { rank, worldSize } = page;
  const [left, right] = await Promise.all([
    page.channelTo((rank + worldSize - 1) % worldSize),
    page.channelTo((rank + 1) % worldSize),
  ]);
  // So that all begin together.
  await pass(left, right, worldSize, 1);
  const ms: number[] = [];
  let last = performance.now();
  for (let op = 0; op < ops; op++) {
    await pass(left, right, worldSize, Math.ceil(bytes / worldSize));
    const now = performance.now();
    ms.push(now - last);
    last = now;
  }
  return { ms };
}

function pass(left: BareChannel, { channel }: BareChannel, worldSize: number, chunkBytes: number): Promise<void> {
  const done = deferred();
  const own = new Uint8Array(chunkBytes);
  const expected = 2 * (worldSize - 1) * chunkBytes;
  const waiting: (ArrayBuffer | Uint8Array<ArrayBuffer>)[] = [];
  let received = 0;
  const flush = (): void => {
    while (waiting.length > 0 && channel.bufferedAmount < HIGH_BYTES) channel.send(waiting.shift() as ArrayBuffer);
    if (received < expected || waiting.length > 0) return;
    channel.onbufferedamountlow = null;
    done.resolve();
  };
  channel.bufferedAmountLowThreshold = LOW_BYTES;
  channel.onbufferedamountlow = flush;
  for (let at = 0; at < chunkBytes; at += MESSAGE_BYTES) waiting.push(own.subarray(at, at + MESSAGE_BYTES));
  flush();
  left.onmessage = (message) => {
    received += message.byteLength;
    // What comes in the last step stays, and what comes then is the next pass's.
    if (received <= expected - chunkBytes) waiting.push(message);
    if (received === expected) left.onmessage = null;
    flush();
  };
  return done.promise;
}
