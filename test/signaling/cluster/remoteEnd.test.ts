/** A link between two processes without Redis and without a network. */
import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { encodeMessage, parseMessage, type Letter } from '../../../signaling/cluster/envelope.ts';
import { PeerProcess, PROCESS_WINDOW_BYTES } from '../../../signaling/cluster/peerProcess.ts';
import { Credentials } from '../../../signaling/credentials.ts';
import { Hub } from '../../../signaling/hub.ts';
import { MIN_CHARGED_MESSAGE_BYTES } from '../../../src/protocol/serverLink.ts';
import { ServerLinks } from '../../../signaling/links/serverLinks.ts';
import { SharedRate } from '../../../signaling/links/sharedRate.ts';
import { DEFAULT_LIMITS, type Limits } from '../../../signaling/limits.ts';
import { Metrics } from '../../../signaling/monitoring/metrics.ts';
import { RoomLog } from '../../../signaling/monitoring/roomLog.ts';
import { PROTOCOL_VERSION } from '../../../src/protocol/control.ts';
import { ManualClock } from '../../manualClock.ts';
import { FakeSocket } from '../fakeSocket.ts';

const FRAME = Buffer.alloc(64 * 1024, 1);
const WINDOW_FRAMES = PROCESS_WINDOW_BYTES / FRAME.length;
const { linkPingMs, linkSilentMs } = DEFAULT_LIMITS;
const GONE = 'The server process of the other end is gone.';

interface ProcessOptions {
  limits?: Partial<Limits>;
  bytesPerSecond?: number;
}

/** One of two processes. What it sends waits in `outbox`. */
class FakeProcess {
  readonly links: ServerLinks;
  readonly peer: PeerProcess;
  readonly outbox: Buffer[] = [];
  readonly announced: Extract<Letter, { type: 'alone' }>[] = [];
  readonly #address: string;
  readonly #credentials = new Credentials('the secret of the test');

  constructor(address: string, clock: ManualClock, { limits, bytesPerSecond = 1e12 }: ProcessOptions) {
    const log = pino({ level: 'silent' });
    const metrics = new Metrics(() => ({ rooms: 0, connections: 0, members: 0, serverLinks: 0 }));
    let connections = 0;
    const options = { clock, limits: { ...DEFAULT_LIMITS, ...limits }, log, metrics };
    this.#address = address;
    this.links = new ServerLinks({
      ...options,
      credentials: this.#credentials,
      roomLog: new RoomLog(log, metrics),
      rate: new SharedRate(clock, bytesPerSecond),
      refusalOf: () => null,
      announce: ({ room, generation, member, peer, channel }) => {
        const connection = ++connections;
        this.announced.push({ type: 'alone', connection, room, generation, member, peer, channel });
        return connection;
      },
    });
    this.peer = new PeerProcess({
      address: 'the-other.1',
      hub: new Hub({
        ...options,
        listener: { opened() {}, forgotten() {}, left() {}, generationBegun() {} },
        hasRelay: false,
        serverLinks: 'on',
        serverLinksRate: 1e6,
        seal: () => '',
      }),
      clock,
      count: () => ++connections,
      links: () => this.links,
      send: (letter, frame) => this.outbox.push(Buffer.from(encodeMessage({ ...letter, from: address }, frame))),
      onover: () => {},
    });
  }

  /** Opens an end of the link `channel`, which is a letter. */
  async open(id: string, peer: string, channel: string): Promise<FakeSocket> {
    const socket = new FakeSocket(() => {});
    this.links.accept(socket.socket);
    const token = this.#credentials.tokenFor('K7F3QX', id);
    const who = { version: PROTOCOL_VERSION, room: 'K7F3QX', member: id, token, peer, generation: 1 };
    socket.receive(JSON.stringify({ ...who, channel: channel.repeat(32) }));
    await new Promise(setImmediate);
    return socket;
  }

  /** Learns which ends wait in the other process. */
  hear({ announced }: FakeProcess): void {
    for (const one of announced.splice(0)) {
      const from = `of-${this.#address}`;
      this.links.join(one, (own) => this.peer.meet(own, { ...one, from }));
    }
  }

  get framesSent(): number {
    return this.outbox.filter((message) => parseMessage(message)?.envelope.type === 'frame').length;
  }

  /** Receives what the other process has sent. */
  async receive({ outbox }: FakeProcess): Promise<void> {
    for (const message of outbox.splice(0)) {
      const { envelope, frame } = parseMessage(message)!;
      if (envelope.type === 'alone' || envelope.type === 'left') throw new Error(`Unexpected: ${envelope.type}.`);
      this.peer.receive(envelope, frame);
    }
    // Acknowledgements are sent after this turn.
    await new Promise(setImmediate);
  }
}

/** Two processes, and one link between them for each channel. The ends `a` are in process `p`. */
async function world(channels = 'c', options: ProcessOptions = {}, others = options) {
  const clock = new ManualClock();
  const [p, q] = [new FakeProcess('process-p.1', clock, options), new FakeProcess('process-q.1', clock, others)];
  const a: FakeSocket[] = [];
  const b: FakeSocket[] = [];
  for (const channel of channels) {
    a.push(await p.open('member-a', 'member-b', channel));
    b.push(await q.open('member-b', 'member-a', channel));
  }
  q.hear(p);
  await p.receive(q);
  /** Delivers everything, and the answers to it. */
  const settle = async (): Promise<void> => {
    await new Promise(setImmediate);
    while (p.outbox.length + q.outbox.length > 0) {
      await q.receive(p);
      await p.receive(q);
    }
  };
  /** Lets time pass, and delivers everything often enough for signs of life. */
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 2_000) {
      clock.advance(Math.min(2_000, ms - passed));
      await settle();
    }
  };
  expect([p.links.count, q.links.count]).toEqual([channels.length, channels.length]);
  return { p, q, a: a as [FakeSocket, FakeSocket], b: b as [FakeSocket, FakeSocket], settle, pass };
}

/** Sends frames until the process pauses the source; returns their number. */
function flood(source: FakeSocket, frame = FRAME): number {
  let count = 0;
  for (; !source.isPaused && count < 10_000; count++) source.receive(frame);
  return count;
}

describe('two ends that wait in different processes', () => {
  test('form one link if both processes hear of the other end at the same time', async () => {
    const clock = new ManualClock();
    const [p, q] = [new FakeProcess('process-p.1', clock, {}), new FakeProcess('process-q.1', clock, {})];
    const a = await p.open('member-a', 'member-b', 'c');
    const b = await q.open('member-b', 'member-a', 'c');
    q.hear(p);
    p.hear(q);
    await q.receive(p);
    await p.receive(q);
    b.isReading = false;
    a.receive(FRAME);
    await q.receive(p);
    expect([p.links.count, q.links.count, b.bufferedAmount]).toEqual([1, 1, FRAME.length]);
    expect([a.closedWith, b.closedWith]).toEqual([null, null]);
  });

  test('form no link if one has closed meanwhile', async () => {
    const clock = new ManualClock();
    const [p, q] = [new FakeProcess('process-p.1', clock, {}), new FakeProcess('process-q.1', clock, {})];
    const a = await p.open('member-a', 'member-b', 'c');
    const b = await q.open('member-b', 'member-a', 'c');
    q.hear(p);
    a.close(1000);
    await p.receive(q);
    await q.receive(p);
    expect([b.closedWith, b.closedWhy]).toEqual([1000, 'The other end of the link has closed.']);
    expect([p.links.count, q.links.count]).toEqual([0, 0]);
  });

  test('form no link if they are ends of the same member', async () => {
    const clock = new ManualClock();
    const [p, q] = [new FakeProcess('process-p.1', clock, {}), new FakeProcess('process-q.1', clock, {})];
    await p.open('member-a', 'member-b', 'c');
    await q.open('member-a', 'member-b', 'c');
    q.hear(p);
    expect([q.links.count, q.outbox.length]).toEqual([0, 0]);
  });
});

describe('a target that does not read', () => {
  test('pauses its source in the other process when 1 MiB waits, until it has read three quarters', async () => {
    const {
      p,
      a: [a],
      b: [b],
      settle,
    } = await world();
    b.isReading = false;
    expect(flood(a)).toBe(16);
    await settle();
    expect([b.bufferedAmount > 15 * FRAME.length, a.isPaused, p.outbox.length]).toEqual([true, true, 0]);
    b.read(11);
    await settle();
    expect(a.isPaused).toBe(true);
    b.read(1);
    await settle();
    expect(a.isPaused).toBe(false);
  });

  test('does not delay other links between the same processes', async () => {
    const { p, a, b, settle } = await world('cdef');
    for (const one of b.slice(1)) one.isReading = false;
    for (const one of a.slice(1)) flood(one);
    await settle();
    for (let i = 0; i < 100; i++) flood(a[0], Buffer.from('x'));
    await settle();
    expect([a[0].isPaused, p.outbox.length]).toEqual([false, 0]);
  });

  test('ends the link for both after the deadline, and frees what waits in both processes', async () => {
    const {
      p,
      q,
      a: [a],
      b: [b],
      pass,
    } = await world();
    b.isReading = false;
    flood(a);
    for (let passed = 0; passed < linkSilentMs; passed += linkPingMs) {
      b.emit('pong');
      a.emit('pong');
      expect([a.closedWith, b.closedWith]).toEqual([null, null]);
      await pass(linkPingMs);
    }
    await pass(linkPingMs);
    const why = 'One end of the link took no data for 600 s.';
    expect([a.closedWith, a.closedWhy, b.closedWith, b.closedWhy]).toEqual([1008, why, 1008, why]);
    expect([p.links.count, q.links.count]).toEqual([0, 0]);
  });
});

describe('frames on their way to the other process', () => {
  test('are at most 1 MiB, of all links together; others wait until that process has received them', async () => {
    const { p, q, a, settle } = await world('cdef');
    for (const one of a) flood(one);
    expect(p.framesSent).toBe(WINDOW_FRAMES);
    await q.receive(p);
    expect(p.framesSent).toBe(0);
    await p.receive(q);
    expect(p.framesSent).toBe(WINDOW_FRAMES);
    await settle();
    expect(a.map(({ isPaused }) => isPaused)).toEqual([false, false, false, false]);
  });

  test('are limited by the memory that they cost, if they are short', async () => {
    const { p, a } = await world('cdef');
    for (const one of a) flood(one, Buffer.from('x'));
    expect(p.framesSent).toBe(PROCESS_WINDOW_BYTES / MIN_CHARGED_MESSAGE_BYTES);
  });

  test('are delivered before the reason for which their source has closed', async () => {
    const { p, q, a, b, settle } = await world('cd');
    for (const one of a) flood(one);
    b[1].isReading = false;
    a[1].close(1000);
    await settle();
    expect([b[1].bufferedAmount > 15 * FRAME.length, b[1].closedWith]).toEqual([true, null]);
    b[1].read();
    await settle();
    expect([b[1].bufferedAmount, b[1].closedWhy]).toEqual([0, 'The other end of the link has closed.']);
    expect([p.links.count, q.links.count]).toEqual([1, 1]);
  });

  test('are dropped if all links hold too much, and their link holds the most', async () => {
    const limits = { maxAllLinksBytes: 3 * PROCESS_WINDOW_BYTES, linkBytes: 3 * PROCESS_WINDOW_BYTES };
    const { p, q, a, b, settle } = await world('cd', { limits });
    flood(a[0]);
    a[1].receive(FRAME);
    await new Promise(setImmediate);
    const why = 'All links together had too much unsent data, and this one had the most.';
    expect([a[0].closedWhy, a[1].closedWith]).toEqual([why, null]);
    await settle();
    expect([b[0].closedWhy, b[1].closedWith, p.links.count, q.links.count]).toEqual([why, null, 1, 1]);
    // The link that is left may send as much as before.
    expect(flood(a[1])).toBe(limits.linkBytes / FRAME.length);
  });
});

describe('the rate of the process with the target', () => {
  test('delays the source in the other process', async () => {
    const {
      a: [a],
      pass,
    } = await world('c', {}, { bytesPerSecond: 1e5 });
    let sent = 0;
    for (let passed = 0; passed < 60_000; passed += 100) {
      if (!a.isPaused) {
        a.receive(FRAME);
        sent += FRAME.length;
      }
      await pass(100);
    }
    // 6 MB in a minute, and the window of the link.
    expect(sent).toBeGreaterThan(5.5e6);
    expect(sent).toBeLessThan(7.5e6);
  });
});

describe('an idle link between two processes', () => {
  test('stays open while both ends answer pings', async () => {
    const {
      a: [a],
      b: [b],
      pass,
    } = await world();
    for (let passed = 0; passed < 3 * linkSilentMs; passed += linkPingMs) {
      await pass(linkPingMs);
      for (const one of [a, b]) one.emit('pong');
    }
    expect([a.pings, b.pings, a.closedWith, b.closedWith]).toEqual([90, 90, null, null]);
  });

  test('ends for both if one end is half-open', async () => {
    const {
      a: [a],
      b: [b],
      pass,
    } = await world();
    for (let passed = 0; passed <= linkSilentMs; passed += linkPingMs) {
      a.emit('pong');
      await pass(linkPingMs);
    }
    const why = 'One end of the link sent nothing for 600 s.';
    expect([a.closedWhy, b.closedWhy]).toEqual([why, why]);
  });
});

test('if the other process is gone, links end, what waits is dropped, and questions are answered', async () => {
  const { p, a } = await world('cd');
  for (const one of a) flood(one);
  const question = p.peer.mayLink('K7F3QX', 1, 'member-a', 'member-b');
  p.peer.end();
  expect(a.map(({ closedWith, closedWhy }) => [closedWith, closedWhy])).toEqual([
    [1012, GONE],
    [1012, GONE],
  ]);
  await expect(question).rejects.toThrow('The server process that has the room is gone.');
  await expect(p.peer.mayLink('K7F3QX', 1, 'member-a', 'member-b')).rejects.toThrow('is gone');
  expect(p.links.count).toBe(0);
});
