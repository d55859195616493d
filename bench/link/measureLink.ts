/** Measures the throughput of a link between ranks 0 and 1, and the round trip of a frame. */
import {
  createFrame,
  emptyFrameHeader,
  FrameKind,
  MAX_FRAME_BYTES,
  FRAME_HEADER_BYTES,
} from '../../src/protocol/frame.ts';
import { HIGH_WATER_BYTES, type Link } from '../../src/transport/link.ts';
import { median } from '../../src/util/statistics.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import type { BareChannel } from '../world/bareChannels.ts';
import { LINK_GENERATION } from '../world/links.ts';
import type { PageRank, WorkerRank } from '../world/rank.ts';

/** Number of frames that rank 0 sends: 16 MiB, which take more than a second on two cores. */
const FRAMES = 256;
/** Number of consecutive round trips of a frame without payload. */
const PINGS = 100;

/** Results of rank 0. On rank 1 they are zeros. */
export interface LinkFigures {
  MBps: number;
  roundTripMs: number;
}

/** A link or a bare channel. `send` resolves when the next frame may be sent. */
interface Sender {
  send(frame: ArrayBuffer): Promise<void>;
  onframe: Link['onframe'];
}

/** Runs in the worker: measures a link, like the links of collectives. */
export async function workerLink({ group, spareLinkTo }: WorkerRank, _args: null): Promise<LinkFigures> {
  const link = spareLinkTo(1 - group.rank);
  // The barrier lets both ranks begin together: without a handler, a link queues only a limited
  // number of frames.
  await group.barrier();
  return measure(link, group.rank);
}

/** Runs on the page: measures a bare data channel. */
export async function bareLink(page: PageRank, _args: null): Promise<LinkFigures> {
  return measure(senderOver(await page.channelTo(1 - page.rank)), page.rank);
}

/** Returns a sender over a bare channel that adds only backpressure. */
function senderOver(bare: BareChannel): Sender {
  const { channel } = bare;
  return {
    async send(frame) {
      channel.send(frame);
      if (channel.bufferedAmount < HIGH_WATER_BYTES) return;
      const drained = createDeferred();
      channel.onbufferedamountlow = () => drained.resolve();
      await drained.promise;
    },
    set onframe(handler: Sender['onframe']) {
      bare.onmessage = handler;
    },
  };
}

function measure(link: Sender, rank: number): Promise<LinkFigures> {
  return rank === 0 ? lead(link) : follow(link);
}

async function lead(link: Sender): Promise<LinkFigures> {
  let answered = createDeferred();
  link.onframe = () => answered.resolve();
  const startedAt = performance.now();
  for (let i = 0; i < FRAMES; i++) await link.send(frameOf(MAX_FRAME_BYTES));
  await answered.promise;
  const MBps = (FRAMES * MAX_FRAME_BYTES) / (performance.now() - startedAt) / 1000;
  const times: number[] = [];
  for (let i = 0; i < PINGS; i++) {
    answered = createDeferred();
    const sentAt = performance.now();
    await link.send(frameOf(FRAME_HEADER_BYTES));
    await answered.promise;
    times.push(performance.now() - sentAt);
  }
  link.onframe = null;
  return { MBps, roundTripMs: median(times) };
}

/** Runs on rank 1: sends an answer to the last 64 KiB frame and to every ping. */
async function follow(link: Sender): Promise<LinkFigures> {
  const done = createDeferred();
  let received = 0;
  link.onframe = () => {
    received += 1;
    if (received >= FRAMES) link.send(frameOf(FRAME_HEADER_BYTES)).catch(done.reject);
    if (received < FRAMES + PINGS) return;
    link.onframe = null;
    done.resolve();
  };
  await done.promise;
  return { MBps: 0, roundTripMs: 0 };
}

function frameOf(bytes: number): ArrayBuffer {
  return createFrame(emptyFrameHeader(FrameKind.DATA, LINK_GENERATION), bytes - FRAME_HEADER_BYTES);
}
