/**
 * The contract of `Link` as test cases, which run with every implementation. A case consists of two
 * programs, one for each end, so it can run in one process or in two tabs. A program throws if its
 * end violates the contract.
 */
import { MAX_FRAME_BYTES, writeFrameNumber } from '../../src/protocol/frame.ts';
import { HIGH_WATER_BYTES, type Link } from '../../src/transport/link.ts';
import { PeerGoneError, UsageError } from '../../src/util/errors.ts';
import { errorOf } from '../errorOf.ts';

/**
 * One end of a case.
 *
 * @param header the first bytes of each frame, for links that read them. Frames then have at least
 * the length of the header.
 */
type Program = (link: Link, header?: Uint8Array) => Promise<void>;

interface LinkCase {
  name: string;
  alice: Program;
  bob: Program;
  /**
   * Set if one end must notice that the other end closes. Views of a shared link do not notice it.
   */
  isCloseSeen?: true;
}

const NO_HEADER: Uint8Array = new Uint8Array();

function check(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(what);
}

function zeros(bytes: number, header = NO_HEADER): ArrayBuffer {
  const frame = new Uint8Array(Math.max(bytes, header.length));
  frame.set(header);
  return frame.buffer;
}

/** Returns a frame whose bytes depend on the frame's number and on their position. */
function patterned(number: number, bytes: number, header = NO_HEADER): ArrayBuffer {
  const frame = zeros(bytes, header);
  const view = new Uint8Array(frame);
  for (let i = header.length; i < view.length; i++) view[i] = (number * 31 + i) % 251;
  return frame;
}

function checkPattern(frame: ArrayBuffer, number: number, bytes: number, header = NO_HEADER): void {
  check(frame instanceof ArrayBuffer, 'a frame is an ArrayBuffer');
  const expected = new Uint8Array(patterned(number, bytes, header));
  check(frame.byteLength === expected.length, `frame ${number} has ${frame.byteLength} bytes, not ${expected.length}`);
  const view = new Uint8Array(frame);
  // Links may number frames in their headers.
  if (header.length > 0) writeFrameNumber(frame, 0);
  for (let i = 0; i < view.length; i++) check(view[i] === expected[i], `frame ${number} differs at byte ${i}`);
}

/** Resolves with the next `count` frames. */
function receive(link: Link, count: number): Promise<ArrayBuffer[]> {
  return new Promise((resolve, reject) => {
    const frames: ArrayBuffer[] = [];
    link.onclose = () => reject(new Error(`the link closed after ${frames.length} of ${count} frames`));
    link.onframe = (frame) => {
      frames.push(frame);
      if (frames.length < count) return;
      link.onframe = null;
      link.onclose = null;
      resolve(frames);
    };
  });
}

function closed(link: Link): Promise<Error | null> {
  return new Promise((resolve) => {
    link.onclose = resolve;
  });
}

/**
 * Sends a small frame in each direction. Afterwards the other end has received all earlier frames.
 */
async function meet(link: Link, header?: Uint8Array): Promise<void> {
  const received = receive(link, 1);
  await link.send(zeros(1, header));
  await received;
}

const SIZES = [1, 2, 3, 31, 32, 33, 1000, 4096, 65_535, MAX_FRAME_BYTES];

async function sendAll(link: Link, sizes: readonly number[], header?: Uint8Array): Promise<void> {
  for (const [number, bytes] of sizes.entries()) await link.send(patterned(number, bytes, header));
}

async function expectAll(link: Link, sizes: readonly number[], header?: Uint8Array): Promise<void> {
  const frames = await receive(link, sizes.length);
  for (const [number, frame] of frames.entries()) checkPattern(frame, number, sizes[number]!, header);
}

export const LINK_CASES: LinkCase[] = [
  {
    name: 'transfers frames of every size, whole and in order',
    alice: async (link, header) => {
      await sendAll(link, SIZES, header);
      await meet(link, header);
    },
    bob: async (link, header) => {
      await expectAll(link, SIZES, header);
      await meet(link, header);
    },
  },
  {
    name: 'transfers frames in both directions at the same time',
    alice: async (link, header) => {
      await Promise.all([sendAll(link, SIZES, header), expectAll(link, SIZES, header)]);
      await meet(link, header);
    },
    bob: async (link, header) => {
      await Promise.all([sendAll(link, SIZES, header), expectAll(link, SIZES, header)]);
      await meet(link, header);
    },
  },
  {
    name: 'queues frames that arrive before a handler is set',
    alice: async (link, header) => {
      await sendAll(link, SIZES, header);
      await meet(link, header);
    },
    bob: async (link, header) => {
      await new Promise((resolve) => setTimeout(resolve, 50));
      await expectAll(link, SIZES, header);
      await meet(link, header);
    },
  },
  {
    name: 'passes each frame to the handler that is set at the time of its arrival',
    alice: async (link, header) => {
      await sendAll(link, [100, 200, 300], header);
      await meet(link, header);
    },
    bob: async (link, header) => {
      const sizes: number[] = [];
      for (let i = 0; i < 3; i++) sizes.push((await receive(link, 1))[0]!.byteLength);
      check(sizes.join() === '100,200,300', `frames of ${sizes.join()} bytes arrived`);
      await meet(link, header);
    },
  },
  {
    name: 'blocks sends while more bytes than the limit are unsent, and resolves them later',
    alice: async (link, header) => {
      const frames = (4 * HIGH_WATER_BYTES) / MAX_FRAME_BYTES;
      let unresolved = 0;
      let most = 0;
      const sends = Array.from({ length: frames }, async () => {
        unresolved += 1;
        most = Math.max(most, unresolved);
        await link.send(zeros(MAX_FRAME_BYTES, header));
        unresolved -= 1;
      });
      check(most > 1, 'no send was blocked');
      await Promise.all(sends);
      check(unresolved === 0, 'a send did not resolve');
      await meet(link, header);
    },
    bob: async (link, header) => {
      await receive(link, (4 * HIGH_WATER_BYTES) / MAX_FRAME_BYTES);
      await meet(link, header);
    },
  },
  {
    name: 'counts frames and bytes',
    alice: async (link, header) => {
      await sendAll(link, [100, 200], header);
      await receive(link, 1);
      const { framesSent, bytesSent, framesReceived, bytesReceived } = link.counters;
      const counters = [framesSent, bytesSent, framesReceived, bytesReceived].join();
      check(counters === '2,300,1,50', `counters are ${counters}`);
      await meet(link, header);
    },
    bob: async (link, header) => {
      await receive(link, 2);
      await link.send(zeros(50, header));
      await meet(link, header);
    },
  },
  {
    name: 'rejects frames that are empty or too large, and stays open',
    alice: async (link, header) => {
      for (const bytes of [0, MAX_FRAME_BYTES + 1]) {
        check(
          (await errorOf(link.send(new ArrayBuffer(bytes)))) instanceof UsageError,
          `${bytes} bytes were not rejected`,
        );
      }
      await meet(link, header);
    },
    bob: meet,
  },
  {
    name: 'describes its route',
    alice: async (link, header) => {
      const { route } = await link.describe();
      check(['direct', 'relayed', 'memory', 'server', 'server-clear'].includes(route), `the route is ${route}`);
      await meet(link, header);
    },
    bob: meet,
  },
  {
    name: 'closes each end exactly once, and then rejects sends',
    isCloseSeen: true,
    alice: async (link, header) => {
      await meet(link, header);
      check(link.state === 'open', 'a fresh link is open');
      const gone = closed(link);
      link.close();
      link.close();
      await gone;
      check((link.state as string) === 'closed', 'a closed link is closed');
      check((await errorOf(link.send(new ArrayBuffer(1)))) instanceof PeerGoneError, 'sending did not fail');
    },
    bob: async (link, header) => {
      await meet(link, header);
      let times = 0;
      await new Promise<void>((resolve) => {
        link.onclose = () => {
          times += 1;
          resolve();
        };
      });
      check((await errorOf(link.send(new ArrayBuffer(1)))) instanceof PeerGoneError, 'sending did not fail');
      check(times === 1, `onclose was called ${times} times`);
      // A handler that is set later is also called.
      await closed(link);
    },
  },
  {
    name: 'settles every send if this end closes the link while sending',
    isCloseSeen: true,
    alice: async (link, header) => {
      const sends = Array.from({ length: 100 }, () => link.send(zeros(MAX_FRAME_BYTES, header)));
      link.close();
      const outcomes = await Promise.allSettled(sends);
      for (const outcome of outcomes) {
        check(
          outcome.status === 'fulfilled' || outcome.reason instanceof PeerGoneError,
          'a send failed with an unexpected error',
        );
      }
    },
    bob: async (link) => {
      let received = 0;
      link.onframe = () => (received += 1);
      await closed(link);
      check(received <= 100, 'more frames arrived than were sent');
    },
  },
  {
    name: 'settles every send if the other end closes the link while receiving',
    isCloseSeen: true,
    alice: async (link, header) => {
      const gone = closed(link);
      const sends = Array.from({ length: 200 }, () => link.send(zeros(MAX_FRAME_BYTES, header)));
      await gone;
      await Promise.allSettled(sends);
    },
    bob: async (link) => {
      let received = 0;
      const gone = closed(link);
      link.onframe = () => {
        received += 1;
        if (received === 3) link.close();
      };
      await gone;
      check(received === 3, `${received} frames arrived, some after the link was closed`);
    },
  },
];
