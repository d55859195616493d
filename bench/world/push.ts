/**
 * Runs on a rank's page: receives bytes from the left neighbour and sends bytes to the right
 * neighbour over bare channels, without frames.
 */
import { leftNeighbourOf, rightNeighbourOf } from '../../src/collectives/plans/ringPlan.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import type { BareChannel } from './bareChannels.ts';
import type { PageRank } from './rank.ts';

/** Numbers of bytes that a rank sends, receives and forwards. */
export interface Share {
  /** Bytes of its own that the rank sends to its right neighbour. */
  own: number;
  /** Bytes that the rank receives from its left neighbour. */
  expected: number;
  /** How many of the received bytes the rank forwards on arrival. */
  passedOn: number;
}

/** Size of a message: as large as a frame. */
const MESSAGE_BYTES = 64 * 1024;
/**
 * Bytes in a channel's send buffer above which messages wait, and below which sending continues.
 * These values were the best between 0 and 8 MiB.
 */
const HIGH_BYTES = 1024 * 1024;
const LOW_BYTES = 0;

/** Resolves with the channels to both ring neighbours. */
export async function neighboursOf(page: PageRank): Promise<[BareChannel, BareChannel]> {
  const { rank, worldSize } = page;
  return Promise.all([
    page.channelTo(leftNeighbourOf(rank, worldSize)),
    page.channelTo(rightNeighbourOf(rank, worldSize)),
  ]);
}

/**
 * Sends, receives and forwards the bytes of a share. Resolves when all are received and forwarded.
 */
export function push(left: BareChannel, { channel }: BareChannel, { own, expected, passedOn }: Share): Promise<void> {
  const done = createDeferred();
  const bytes = new Uint8Array(own);
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
  for (let at = 0; at < own; at += MESSAGE_BYTES) waiting.push(bytes.subarray(at, at + MESSAGE_BYTES));
  flush();
  // A rank that expects nothing must not handle messages, because they belong to the next push.
  if (expected === 0) return done.promise;
  left.onmessage = (message) => {
    received += message.byteLength;
    if (received <= passedOn) waiting.push(message);
    if (received === expected) left.onmessage = null;
    flush();
  };
  return done.promise;
}
