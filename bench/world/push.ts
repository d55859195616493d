/**
 * On a rank's page: bytes from the left neighbour to the right one over bare channels, without
 * frames and worker.
 */
import { leftOf, rightOf } from '../../src/collectives/plans/ringPlan.ts';
import { deferred } from '../../src/util/deferred.ts';
import type { BareChannel } from './bareChannels.ts';
import type { PageRank } from './rank.ts';

/** What a rank does with bytes. */
export interface Share {
  /** Sends so many of its own to the right, */
  own: number;
  /** gets so many from the left, */
  expected: number;
  /** and sends so many of these on, as soon as they have come. */
  passedOn: number;
}

/** As large as a frame of ours. */
const MESSAGE_BYTES = 64 * 1024;
/**
 * Handed to a channel before messages wait here, and when to go on: the best of those tried, from
 * 256 KiB to 8 MiB.
 */
const HIGH_BYTES = 1024 * 1024;
const LOW_BYTES = 0;

/** The channels to both ring neighbours. */
export async function neighboursOf(page: PageRank): Promise<[BareChannel, BareChannel]> {
  const { rank, worldSize } = page;
  return Promise.all([page.channelTo(leftOf(rank, worldSize)), page.channelTo(rightOf(rank, worldSize))]);
}

/** Resolves once all has come and been handed on. */
export function push(left: BareChannel, { channel }: BareChannel, { own, expected, passedOn }: Share): Promise<void> {
  const done = deferred();
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
  // What comes when all of this has come is the next push's.
  if (expected === 0) return done.promise;
  left.onmessage = (message) => {
    received += message.byteLength;
    if (received <= passedOn) waiting.push(message);
    if (received === expected) left.onmessage = null;
    flush();
  };
  return done.promise;
}
