/** Two WebSockets whose messages the server forwards, with clients that misbehave. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { PairedLink, type LinkContext } from '../../../signaling/links/pairedLink.ts';
import { SharedRate } from '../../../signaling/links/sharedRate.ts';
import { DEFAULT_LIMITS, type Limits } from '../../../signaling/limits.ts';
import { Metrics } from '../../../signaling/monitoring/metrics.ts';
import { MIN_CHARGED_MESSAGE_BYTES } from '../../../src/protocol/serverLink.ts';
import { ManualClock } from '../../manualClock.ts';
import { FakeSocket } from '../fakeSocket.ts';

const MIB = 1024 * 1024;
const FRAME = Buffer.alloc(64 * 1024, 1);
const { linkPingMs, linkSilentMs } = DEFAULT_LIMITS;

interface WorldOptions {
  limits?: Partial<Limits>;
  bytesPerSecond?: number;
}

/** State that links of one server share. The link with `shed` ends if they hold too much. */
function world({ limits, bytesPerSecond = 1e12 }: WorldOptions = {}) {
  const clock = new ManualClock();
  const metrics = new Metrics(() => ({ rooms: 0, connections: 0, members: 0, serverLinks: 0 }));
  const rate = new SharedRate(clock, bytesPerSecond);
  const shed: string[] = [];
  const context: LinkContext = {
    clock,
    limits: { ...DEFAULT_LIMITS, ...limits },
    metrics,
    rate,
    backlog: { bytes: 0 },
    shed: () => shed.push('shed'),
  };
  return { clock, context, metrics, shed };
}

/** A link between two sockets without a network. */
function link(options?: WorldOptions) {
  const one = world(options);
  const [a, b] = [new FakeSocket(() => {}), new FakeSocket(() => {})];
  const ends: string[] = [];
  const paired = new PairedLink('room', [a.socket, b.socket], one.context, (why) => ends.push(why));
  return { ...one, link: paired, a, b, ends };
}

/** Sends frames until the server pauses the source; returns their number. */
function flood(source: FakeSocket, frame = FRAME): number {
  let count = 0;
  for (; !source.isPaused && count < 10_000; count++) source.receive(frame);
  return count;
}

describe('a target that does not read', () => {
  test('pauses its source when 1 MiB waits, until it has read three quarters', () => {
    const { link: paired, context, a, b } = link();
    b.isReading = false;
    expect(flood(a)).toBe(16);
    expect([paired.waiting, context.backlog.bytes]).toEqual([MIB, MIB]);
    expect(b.isPaused).toBe(false);
    b.read(11);
    expect(a.isPaused).toBe(true);
    b.read(1);
    expect(a.isPaused).toBe(false);
    b.read();
    expect([paired.waiting, context.backlog.bytes]).toEqual([0, 0]);
  });

  test('ends the link after the deadline, although it sends; what waits for it is dropped', () => {
    const { clock, link: paired, context, ends, a, b } = link();
    b.isReading = false;
    flood(a);
    for (let passed = 0; passed < linkSilentMs; passed += linkPingMs) {
      b.receive(FRAME);
      clock.advance(linkPingMs);
    }
    expect(ends).toEqual([]);
    clock.advance(linkPingMs);
    expect(ends).toEqual(['One end of the link took no data for 600 s.']);
    expect([a.closedWith, a.closedWhy, b.closedWith, b.closedWhy]).toEqual([1008, ends[0], 1008, ends[0]]);
    b.terminate();
    expect([paired.waiting, context.backlog.bytes, clock.untilNext]).toEqual([0, 0, null]);
  });

  test('keeps the link while it takes something now and then', () => {
    const { clock, ends, a, b } = link();
    b.isReading = false;
    flood(a);
    for (let passed = 0; passed < 3 * linkSilentMs; passed += linkPingMs) {
      if (passed % (linkSilentMs - linkPingMs) === 0) b.read(1);
      if (!a.isPaused) flood(a);
      b.receive(FRAME);
      clock.advance(linkPingMs);
    }
    expect(ends).toEqual([]);
  });

  test('gets only a limited number of short messages, because each costs memory', () => {
    const { a, b } = link();
    b.isReading = false;
    expect(flood(a, Buffer.from('x'))).toBe(MIB / MIN_CHARGED_MESSAGE_BYTES);
  });

  test('makes its source wait while any message waits, if all links hold much', () => {
    const { a, b } = link({ limits: { allLinksBytes: FRAME.length } });
    b.isReading = false;
    expect(flood(a)).toBe(1);
    b.read();
    expect(a.isPaused).toBe(false);
  });

  test('does not take the share of another room', () => {
    const { context, a, b } = link({ limits: { allLinksBytes: 4 * FRAME.length } });
    const [c, d] = [new FakeSocket(() => {}), new FakeSocket(() => {})];
    void new PairedLink('other', [c.socket, d.socket], context, () => {});
    b.isReading = d.isReading = false;
    expect([flood(a), flood(c)]).toEqual([4, 2]);
  });

  test('makes the server end a link if all of them hold too much', () => {
    const { shed, a, b } = link({ limits: { maxAllLinksBytes: MIB } });
    b.isReading = false;
    flood(a);
    expect(shed).toEqual([]);
    a.receive(FRAME);
    expect(shed).toEqual(['shed']);
  });
});

describe('an idle link', () => {
  test('carries a ping to each end every 20 s, and stays open while they answer', () => {
    const { clock, ends, a, b } = link();
    for (let passed = 0; passed < 3 * linkSilentMs; passed += linkPingMs) {
      clock.advance(linkPingMs);
      for (const one of [a, b]) one.emit('pong');
    }
    expect([a.pings, b.pings]).toEqual([90, 90]);
    expect(ends).toEqual([]);
  });

  test('ends if one end is half-open: it neither answers nor closes', () => {
    const { clock, ends, a, b } = link();
    for (let passed = 0; passed <= linkSilentMs; passed += linkPingMs) {
      expect(ends).toEqual([]);
      a.emit('pong');
      clock.advance(linkPingMs);
    }
    expect(ends).toEqual(['One end of the link sent nothing for 600 s.']);
    expect([a.closedWith, b.closedWith]).toEqual([1008, 1008]);
  });
});

describe('a rate that is used up', () => {
  test('pauses sources, which do not count as silent meanwhile', () => {
    const { clock, ends, a, b } = link({ bytesPerSecond: 1e5, limits: { linkSilentMs: 2 * linkPingMs } });
    for (let passed = 0; passed < 10 * linkPingMs; passed += 1000) {
      // Each time the source sends as much as the rate allows in 65 s.
      if (!a.isPaused) for (let i = 0; i < 100; i++) a.receive(FRAME);
      b.emit('pong');
      clock.advance(1000);
    }
    expect(ends).toEqual([]);
  });

  test('is used by pings and pongs, too', () => {
    const { a } = link({ bytesPerSecond: 1e5 });
    for (let i = 0; i < 100; i++) a.emit(i % 2 === 0 ? 'ping' : 'pong');
    expect(a.isPaused).toBe(true);
  });

  test('delays no closing handshake', () => {
    const { clock, a, b } = link({ bytesPerSecond: 1e5 });
    flood(a);
    b.close(1000);
    expect([a.isPaused, a.closedWith, clock.untilNext]).toEqual([false, 1000, null]);
  });
});

describe('a source that closes', () => {
  test('ends the link after its target has taken what waits for it', () => {
    const { ends, a, b } = link();
    b.isReading = false;
    for (let i = 0; i < 3; i++) a.receive(FRAME);
    a.close(1000);
    const before = [b.closedWith, ends.length];
    b.read(2);
    const later = [b.closedWith, ends.length];
    b.read(1);
    expect([before, later]).toEqual([
      [null, 0],
      [null, 0],
    ]);
    expect([b.closedWith, ends]).toEqual([1000, ['The other end of the link has closed.']]);
  });

  test('ends it at once if its target closes, too, and after the deadline if the target takes nothing', () => {
    const [both, one] = [link(), link()];
    for (const { a, b } of [both, one]) {
      b.isReading = false;
      a.receive(FRAME);
      a.close(1000);
    }
    both.b.close(1000);
    expect(both.ends).toEqual(['The other end of the link has closed.']);
    for (let passed = 0; passed <= linkSilentMs; passed += linkPingMs) one.clock.advance(linkPingMs);
    expect([one.b.closedWith, one.ends.length]).toEqual([1008, 1]);
  });
});

test('a link whose end sends a text, or an invalid message, ends for both', () => {
  const sendText = link();
  sendText.a.receive('text');
  expect([sendText.a.closedWith, sendText.b.closedWith]).toEqual([1008, 1008]);
  expect(sendText.ends).toEqual(['One end of the link sent a text, but frames are binary.']);
  const sendMuch = link();
  sendMuch.b.emit('error', Object.assign(new Error(), { code: 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH' }));
  expect(sendMuch.ends).toEqual(['One end of the link sent an invalid or too large message.']);
});

test('bytes are counted', async () => {
  const { metrics, a } = link();
  for (const text of ['one', 'three']) a.receive(Buffer.from(text));
  expect(await metrics.text()).toContain('\npeergrad_server_link_bytes_total 8\n');
});

describe('over TCP', () => {
  const open: (() => void)[] = [];
  afterEach(() => {
    while (open.length > 0) open.pop()!();
  });

  /** Returns the two clients of a link, and the server's end of the first. */
  async function connected(closeTimeout = 30_000) {
    const server = new WebSocketServer({
      ...{ port: 0, host: '127.0.0.1', perMessageDeflate: false },
      // The types of `ws` do not have this option.
      ...{ closeTimeout },
    });
    open.push(() => server.close());
    await once(server, 'listening');
    const connect = async (): Promise<[WebSocket, WebSocket]> => {
      const arrived = once(server, 'connection') as Promise<[WebSocket]>;
      const far = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
      far.on('error', () => {});
      open.push(() => far.terminate());
      const [near] = await arrived;
      if (far.readyState !== WebSocket.OPEN) await once(far, 'open');
      return [far, near];
    };
    const [[a, nearA], [b, nearB]] = [await connect(), await connect()];
    const one = world();
    const paired = new PairedLink('room', [nearA, nearB], one.context, () => {});
    return { ...one, link: paired, a, b, nearA };
  }

  test('a source waits while its target does not read, and everything arrives in order afterwards', async () => {
    const { link: paired, context, a, b, nearA } = await connected();
    b.pause();
    const count = 160;
    for (let i = 0; i < count; i++) a.send(Buffer.alloc(FRAME.length, i % 256));
    await expect.poll(() => nearA.isPaused, { timeout: 10_000 }).toBe(true);
    // One read of a socket and a frame that was incomplete before may come on top.
    expect(paired.waiting).toBeLessThan(MIB + 2 * FRAME.length);
    const first: number[] = [];
    b.on('message', (data: Buffer) => first.push(data[0]!));
    b.resume();
    await expect.poll(() => first.length, { timeout: 10_000 }).toBe(count);
    expect(first).toEqual(Array.from({ length: count }, (_, i) => i % 256));
    await expect.poll(() => [paired.waiting, context.backlog.bytes, nearA.isPaused]).toEqual([0, 0, false]);
  });

  test('a target gets all frames of a source that has closed, and then the reason', async () => {
    const { a, b } = await connected();
    let received = 0;
    b.on('message', () => received++);
    for (let i = 0; i < 10; i++) a.send(FRAME);
    a.close();
    const [code, reason] = (await once(b, 'close')) as [number, Buffer];
    expect([received, code, reason.toString()]).toEqual([10, 1000, 'The other end of the link has closed.']);
  });

  test('a slow target gets all frames of a source that has closed, however long that takes', async () => {
    const closeTimeout = 20;
    const { link: paired, a, b } = await connected(closeTimeout);
    b.pause();
    let sent = 0;
    for (; paired.waiting < 4 * FRAME.length; sent++) {
      a.send(FRAME);
      await new Promise((resolve) => setImmediate(resolve));
    }
    a.close();
    await once(a, 'close');
    await new Promise((resolve) => setTimeout(resolve, 5 * closeTimeout));
    let received = 0;
    b.on('message', () => received++);
    b.resume();
    const [code] = (await once(b, 'close')) as [number];
    expect([received, code]).toEqual([sent, 1000]);
  });

  test('what waits for a target is dropped when its connection is destroyed', async () => {
    const { link: paired, context, a, b, nearA } = await connected();
    b.pause();
    for (let i = 0; i < 160; i++) a.send(FRAME);
    await expect.poll(() => nearA.isPaused, { timeout: 10_000 }).toBe(true);
    paired.terminate('too much');
    await expect.poll(() => context.backlog.bytes).toBe(0);
  });
});
