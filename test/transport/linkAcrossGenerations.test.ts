import { describe, expect, test } from 'vitest';
import { Mesh } from '../../src/collectives/mesh.ts';
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import {
  createFrame,
  emptyFrameHeader,
  FRAME_HEADER_BYTES,
  FrameKind,
  readFrameHeader,
} from '../../src/protocol/frame.ts';
import { performHandshake, type HelloMessage } from '../../src/transport/handshake.ts';
import type { Link } from '../../src/transport/link.ts';
import { createMemoryLinkPair } from '../../src/transport/memoryLink.ts';
import { MAX_EARLY_BYTES, LinkAcrossGenerations } from '../../src/transport/linkAcrossGenerations.ts';
import { systemClock } from '../../src/util/clock.ts';
import { PeerGoneError, ProtocolError, UsageError } from '../../src/util/errors.ts';
import { LINK_CASES } from './linkCompliance.ts';

/** Returns the two ends of one link as shared links. */
function sharedPair(): [LinkAcrossGenerations, LinkAcrossGenerations] {
  const [a, b] = createMemoryLinkPair();
  return [new LinkAcrossGenerations(a), new LinkAcrossGenerations(b)];
}

const dataOf = (generation: number, bytes = 4): ArrayBuffer =>
  createFrame(emptyFrameHeader(FrameKind.DATA, generation), bytes);

/** Resolves when all frames sent over memory links have arrived. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Returns the payload sizes of the frames that a view receives. */
function received(view: Link): number[] {
  const sizes: number[] = [];
  view.onframe = (frame) => sizes.push(frame.byteLength - FRAME_HEADER_BYTES);
  return sizes;
}

/** Returns the `onclose` calls of a shared link and its views of generations 1 and 2, in order. */
function closesOf(shared: LinkAcrossGenerations): unknown[][] {
  const closes: unknown[][] = [];
  for (const generation of [1, 2]) shared.view(generation).onclose = (error) => closes.push([generation, error]);
  shared.onclose = (error) => closes.push(['owner', error]);
  return closes;
}

const hello = (generation: number, rank: number): HelloMessage => ({
  room: 'K7F3QX',
  generation,
  member: `member-${rank}`,
  rank,
});

/** Performs the handshake over a view, as `rank` of two. */
async function shakeHands(view: Link, generation: number, rank: number): Promise<Link> {
  await performHandshake(view, hello(generation, rank), hello(generation, 1 - rank), {
    timeoutMs: 5000,
    clock: systemClock,
  });
  return view;
}

function groupOver(view: Link, generation: number, rank: number): ProcessGroup {
  return new ProcessGroup(new Mesh({ rank, worldSize: 2, generation, links: new Map([[1 - rank, view]]) }));
}

describe('the view of one generation on a shared link', () => {
  const header = new Uint8Array(dataOf(7, 0));

  const cases = LINK_CASES.filter(({ isCloseSeen }) => !isCloseSeen).map((one) => [one.name, one] as const);
  test.each(cases)('%s', async (_name, { alice, bob }) => {
    const [a, b] = sharedPair();
    // Another generation is used at the same time.
    const [others, view] = [b.view(6), a.view(7)];
    const elsewhere = received(others);
    await a.view(8).send(dataOf(6, 5));
    await Promise.all([alice(view, header), bob(b.view(7), header)]);
    expect(elsewhere).toEqual([5]);
    a.close();
  });

  test('receives only frames of its generation, in order, including those that arrived before the view existed', async () => {
    const [a, b] = sharedPair();
    const from = a.view(1);
    for (const [generation, bytes] of [
      [3, 1],
      [2, 2],
      [4, 3],
      [3, 4],
    ] as const)
      await from.send(dataOf(generation, bytes));
    await settled();
    const third = received(b.view(3));
    await from.send(dataOf(3, 5));
    await from.send(dataOf(2, 6));
    await settled();
    expect(third).toEqual([1, 4, 5]);
    expect(received(b.view(4))).toEqual([3]);
    expect(() => b.view(2)).toThrow(UsageError);
    expect(() => b.view(4)).toThrow('generation 4 cannot follow 4');
  });

  test('can be closed while the link stays open; it then receives nothing more, and its sends end', async () => {
    const [a, b] = sharedPair();
    const [mine, theirs, next] = [a.view(1), b.view(1), a.view(2)];
    const closes: string[] = [];
    mine.onclose = (error) => closes.push(`mine ${String(error)}`);
    theirs.onclose = () => closes.push('theirs');
    const after = received(mine);
    const sends = Array.from({ length: 40 }, () => mine.send(dataOf(1, 60_000)));
    mine.close();
    await Promise.all(sends);
    await theirs.send(dataOf(1));
    await theirs.send(dataOf(2, 9));
    await settled();
    expect([mine.state, theirs.state, next.state, a.state]).toEqual(['closed', 'open', 'open', 'open']);
    expect(closes).toEqual(['mine null']);
    expect(after).toEqual([]);
    expect(received(next)).toEqual([9]);
    await expect(mine.send(dataOf(1))).rejects.toBeInstanceOf(PeerGoneError);
  });

  test('counts only the frames of its generation', async () => {
    const [a, b] = sharedPair();
    const [first, second] = [a.view(1), a.view(2)];
    await first.send(dataOf(1, 10));
    await second.send(dataOf(2, 20));
    await settled();
    expect([first, second, b.view(2)].map(({ counters }) => counters)).toEqual([
      { framesSent: 1, bytesSent: 42, framesReceived: 0, bytesReceived: 0 },
      { framesSent: 1, bytesSent: 52, framesReceived: 0, bytesReceived: 0 },
      { framesSent: 0, bytesSent: 0, framesReceived: 1, bytesReceived: 52 },
    ]);
  });
});

describe('a shared link', () => {
  test.each(['near', 'far'])('closes all views on both ends when the %s end closes the link', async (end) => {
    const [a, b] = sharedPair();
    const closes = [closesOf(a), closesOf(b)];
    (end === 'near' ? a : b).close();
    await settled();
    for (const lines of closes)
      expect(lines).toEqual([
        ['owner', null],
        [1, null],
        [2, null],
      ]);
    expect([a.state, b.state]).toEqual(['closed', 'closed']);
    // A handler that is set later is also called. A view that is created later is closed.
    let late: unknown = 'nothing';
    a.onclose = (error) => (late = error);
    expect(late).toBeNull();
    const view = a.view(3);
    await expect(view.send(dataOf(3))).rejects.toBeInstanceOf(PeerGoneError);
  });

  test('passes the error to every open view when it breaks', async () => {
    const [a, b] = createMemoryLinkPair();
    const closes = closesOf(new LinkAcrossGenerations(a));
    await b.send(new ArrayBuffer(FRAME_HEADER_BYTES - 1));
    await settled();
    const error = expect.any(ProtocolError) as unknown;
    expect(closes).toEqual([
      ['owner', error],
      [1, error],
      [2, error],
    ]);
    expect(String(closes[0]![1])).toContain('31 bytes is shorter than its header');
    expect(b.state).toBe('closed');
  });

  test('tells its latest view that it has stalled, and all views that it works again', () => {
    const [link] = createMemoryLinkPair();
    const shared = new LinkAcrossGenerations(link);
    const stalls: [number, boolean][] = [];
    for (const generation of [1, 2, 3]) {
      const view = shared.view(generation);
      view.onstall = (isStalled) => stalls.push([generation, isStalled]);
      if (generation === 3) view.close();
    }
    link.onstall!(true);
    expect(shared.isStalled).toBe(true);
    link.onstall!(false);
    expect(shared.isStalled).toBe(false);
    expect(stalls).toEqual([
      [2, true],
      [1, false],
      [2, false],
    ]);
  });

  test('delivers frames that arrived before it closed, even to a view that is created after the close', async () => {
    const [a, b] = createMemoryLinkPair();
    const shared = new LinkAcrossGenerations(a);
    await b.send(dataOf(1, 8));
    b.close();
    await settled();
    const view = shared.view(1);
    expect(view.state).toBe('closed');
    expect(received(view)).toEqual([8]);
  });

  test('breaks if it cannot store all early frames of a later generation, and drops those of skipped generations', async () => {
    const [a, b] = sharedPair();
    const from = a.view(1);
    const half = MAX_EARLY_BYTES / 2 - FRAME_HEADER_BYTES;
    await from.send(dataOf(2, half));
    await from.send(dataOf(3, half));
    await settled();
    b.view(3);
    await from.send(dataOf(4, half));
    await from.send(dataOf(5, half));
    await settled();
    expect(b.state).toBe('open');
    let reason: unknown;
    b.onclose = (error) => (reason = error);
    await from.send(dataOf(4, 0));
    await settled();
    expect(reason).toBeInstanceOf(ProtocolError);
    expect(String(reason)).toContain('more than 64 KiB of generation 4');
    expect(a.state).toBe('closed');
  });
});

describe('the change to the next generation', () => {
  test('succeeds if one end is late and data of the old generation still arrives', async () => {
    const [a, b] = sharedPair();
    const [oldA, oldB] = await Promise.all([shakeHands(a.view(1), 1, 0), shakeHands(b.view(1), 1, 1)]);
    const early = shakeHands(a.view(2), 2, 0);
    await oldA.send(dataOf(1));
    await oldB.send(dataOf(1));
    await settled();
    oldA.close();
    const late = shakeHands(b.view(2), 2, 1);
    // This frame belongs to a generation that is already over at the other end.
    await oldB.send(dataOf(1));
    const [newA, newB] = await Promise.all([early, late]);
    const next = new Promise<ArrayBuffer>((resolve) => (newB.onframe = resolve));
    await newA.send(dataOf(2, 3));
    expect(readFrameHeader(await next)).toMatchObject({ kind: FrameKind.DATA, generation: 2 });
    expect(newA.counters.framesReceived).toBe(2);
  });

  test('fails if the handshake finds an unexpected peer, and keeps the view of the old generation open', async () => {
    const [a, b] = sharedPair();
    const kept = a.view(1);
    const outcomes = await Promise.allSettled([shakeHands(a.view(2), 2, 0), shakeHands(b.view(2), 2, 0)]);
    for (const outcome of outcomes) {
      expect(String(outcome.status === 'rejected' && outcome.reason)).toContain('reached another peer');
    }
    expect([kept.state, a.state, b.state]).toEqual(['open', 'open', 'open']);
  });

  test('lets a long all-reduce of the old generation end while the new generation makes its handshake', async () => {
    const shared = sharedPair();
    const old = shared.map((link, rank) => groupOver(link.view(1), 1, rank));
    const count = 1_000_000;
    const tensors = old.map(({ rank }) => new Float32Array(count).fill(rank + 1));
    let isOldDone = false;
    const long = Promise.all(old.map((group, rank) => group.allReduce(tensors[rank]!))).then(() => (isOldDone = true));
    const groups = await Promise.all(
      shared.map(async (link, rank) => groupOver(await shakeHands(link.view(2), 2, rank), 2, rank)),
    );
    const sums = await Promise.all(groups.map(({ rank }, i) => groups[i]!.allReduce(Float32Array.of(rank + 10))));
    expect(isOldDone).toBe(false);
    expect(sums.map(([sum]) => sum)).toEqual([21, 21]);
    await long;
    for (const tensor of tensors) expect(tensor.every((value) => value === 3)).toBe(true);
    // The old generation ends without effect on the new one.
    for (const group of old) group.destroy();
    await Promise.all(groups.map((group) => group.barrier()));
    shared[0].close();
    await expect(groups[1]!.barrier()).rejects.toBeInstanceOf(PeerGoneError);
  });

  test('counts the bytes of all generations, even if the transport cannot report how many bytes wait to be sent', async () => {
    const [one, other] = sharedPair();
    await one.view(1).send(dataOf(1, 100));
    await one.view(2).send(dataOf(2, 50));
    await settled();
    const bytes = 2 * FRAME_HEADER_BYTES + 150;
    expect([one.traffic, other.traffic]).toEqual([
      { unsent: 0, sent: bytes, received: 0 },
      { unsent: 0, sent: 0, received: bytes },
    ]);
  });
});
