/**
 * The handshake of a new link, with HELLO and HELLO-ACK. A link is up once both ends have
 * identified themselves and agreed. Stale or wrong peers (from another room, generation or rank)
 * are rejected here, before any gradient is exchanged.
 */
import * as v from 'valibot';
import { decodeJsonFrame, emptyFrameHeader, encodeJsonFrame, FrameKind, readFrameHeader } from '../protocol/frame.ts';
import type { Clock } from '../util/clock.ts';
import { createDeferred } from '../util/deferred.ts';
import { PeerGoneError, ProtocolError, TimeoutError } from '../util/errors.ts';
import type { Link } from './link.ts';

export const HelloMessage = v.strictObject({
  room: v.string(),
  generation: v.number(),
  member: v.string(),
  rank: v.number(),
});
export type HelloMessage = v.InferOutput<typeof HelloMessage>;

/**
 * Performs the handshake of a new link. Resolves when both ends agree; further frames stay queued
 * in the link for the next handler. On failure the link is closed.
 *
 * @param isExcused returns whether to wait `timeoutMs` again.
 * @throws ProtocolError if the other side is not `expected`, TimeoutError after `timeoutMs`,
 *   PeerGoneError if the link closes first.
 */
export async function performHandshake(
  link: Link,
  self: HelloMessage,
  expected: HelloMessage,
  { timeoutMs, clock, isExcused = () => false }: { timeoutMs: number; clock: Clock; isExcused?: () => boolean },
): Promise<void> {
  const done = createDeferred();
  let greeted = false;
  let acknowledged = false;
  const expire = (): void => {
    if (isExcused()) {
      cancelDeadline = clock.after(timeoutMs, expire);
      return;
    }
    const missing = greeted ? 'HELLO-ACK' : 'HELLO';
    done.reject(
      new TimeoutError(`Rank ${expected.rank} did not send ${missing} within ${timeoutMs} ms of connecting.`, {
        generation: self.generation,
        rank: self.rank,
        missing: [expected.rank],
      }),
    );
  };
  let cancelDeadline = clock.after(timeoutMs, expire);
  const receive = (frame: ArrayBuffer): void => {
    const { kind } = readFrameHeader(frame);
    if (kind === FrameKind.HELLO) {
      const hello = v.safeParse(HelloMessage, decodeJsonFrame(frame));
      const isExpected =
        hello.success &&
        (Object.keys(expected) as (keyof HelloMessage)[]).every((key) => hello.output[key] === expected[key]);
      if (!isExpected) throw new ProtocolError(`A link for rank ${expected.rank} reached another peer.`);
      greeted = true;
      link.send(encodeJsonFrame(emptyFrameHeader(FrameKind.HELLO_ACK, self.generation), {})).catch(done.reject);
    } else if (kind === FrameKind.HELLO_ACK) acknowledged = true;
    else throw new ProtocolError(`Rank ${expected.rank} sent data before HELLO.`);
    if (!greeted || !acknowledged) return;
    // The handler is removed immediately, so that later frames are queued for the next handler.
    link.onframe = null;
    done.resolve();
  };
  link.onclose = (error) =>
    done.reject(error ?? new PeerGoneError(`Rank ${expected.rank} closed the link while it was opening.`));
  link.onframe = (frame) => {
    try {
      receive(frame);
    } catch (error) {
      done.reject(error);
    }
  };
  try {
    await Promise.all([
      link.send(encodeJsonFrame(emptyFrameHeader(FrameKind.HELLO, self.generation), self)),
      done.promise,
    ]);
  } catch (error) {
    link.close();
    throw error;
  } finally {
    cancelDeadline();
    link.onclose = null;
  }
}

/**
 * Resolves when the first frame arrives, which shows that the link is open at the other end, too.
 * Rejects if the link closes first.
 */
export function waitForFirstFrame(link: Link): Promise<void> {
  const arrived = createDeferred();
  link.onclose = (error) => arrived.reject(error ?? new PeerGoneError('The other end has closed the connection.'));
  link.onframe = () => arrived.resolve();
  return arrived.promise;
}
