/**
 * Measures a link between two tabs. One end asks and sends blocks of data, the other end answers.
 * At the end, the first one sends the result.
 */
import * as v from 'valibot';
import {
  createFrame,
  decodeJsonFrame,
  emptyFrameHeader,
  encodeJsonFrame,
  FRAME_HEADER_BYTES,
  FrameKind,
  MAX_FRAME_BYTES,
  readFrameHeader,
} from '../../protocol/frame.ts';
import { NETWORK_CHECK_GENERATION, LinkSpeed } from '../../protocol/networkCheck.ts';
import type { Link } from '../../transport/link.ts';
import type { Clock } from '../../util/clock.ts';
import { createDeferred, type Deferred } from '../../util/deferred.ts';
import { asError, PeerGoneError } from '../../util/errors.ts';

/**
 * Number of measured round trips. The shortest one is reported, because a busy tab answers late.
 */
const QUESTIONS = 5;
/** Number of frames of the first block. Each following block is twice as long. */
const FIRST_FRAMES = 1;
/** No block follows one that has this number of frames (4 MiB). */
const MAX_FRAMES = 64;
/** No block follows one that took this number of milliseconds. */
const ENOUGH_MS = 200;

const header = (kind: FrameKind) => emptyFrameHeader(kind, NETWORK_CHECK_GENERATION);

/** Measures the link, and sends the result to the other end. Rejects if the link breaks. */
export async function measureLinkSpeed(link: Link, clock: Clock): Promise<LinkSpeed> {
  const questions: Deferred<void>[] = [];
  let end: Error | null = null;
  link.onframe = (frame) => {
    if (readFrameHeader(frame).kind === FrameKind.HELLO_ACK) questions.shift()?.resolve();
  };
  link.onclose = (error) => {
    end = error ?? new PeerGoneError('The other tab has closed the link.');
    for (const question of questions.splice(0)) question.reject(end);
  };
  /** Resolves when the other end has received everything so far. */
  const ask = async (): Promise<void> => {
    if (end !== null) throw end;
    const answer = createDeferred();
    questions.push(answer);
    await Promise.all([link.send(createFrame(header(FrameKind.HELLO), 0)), answer.promise]);
  };
  const time = async (work: () => Promise<void>): Promise<number> => {
    const startedAt = clock.now();
    await work();
    // Clocks of browsers are coarse.
    return Math.max(clock.now() - startedAt, 0.1);
  };
  let roundTripMs = Infinity;
  for (let i = 0; i < QUESTIONS; i++) roundTripMs = Math.min(roundTripMs, await time(ask));
  for (let frames = FIRST_FRAMES; ; frames *= 2) {
    const ms = await time(async () => {
      for (let i = 0; i < frames; i++) {
        await link.send(createFrame(header(FrameKind.DATA), MAX_FRAME_BYTES - FRAME_HEADER_BYTES));
      }
      await ask();
    });
    if (frames < MAX_FRAMES && ms < ENOUGH_MS) continue;
    const speed = { roundTripMs, bytesPerSecond: (frames * MAX_FRAME_BYTES * 1000) / ms };
    await link.send(encodeJsonFrame(header(FrameKind.FLOOD), speed));
    // The other end may close the link as soon as it has the result.
    await ask().catch(() => {});
    return speed;
  }
}

/** Answers {@link measureLinkSpeed} of the other end. Resolves with the result. */
export function answerLinkMeasurement(link: Link): Promise<LinkSpeed> {
  const speed = createDeferred<LinkSpeed>();
  link.onframe = (frame) => {
    try {
      const { kind } = readFrameHeader(frame);
      if (kind === FrameKind.FLOOD) speed.resolve(v.parse(LinkSpeed, decodeJsonFrame(frame)));
      if (kind === FrameKind.HELLO) link.send(createFrame(header(FrameKind.HELLO_ACK), 0)).catch(speed.reject);
    } catch (error) {
      speed.reject(asError(error));
    }
  };
  link.onclose = (error) => speed.reject(error ?? new PeerGoneError('The other tab has closed the link.'));
  return speed.promise;
}
