/** Lines of the test network. */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { LineRelay } from '../../tools/network/lineRelay.ts';
import { directionsOf, LINES } from '../../tools/network/lines.ts';
import { OneWay } from '../../tools/network/oneWay.ts';
import { turnUserOf } from '../../tools/network/turnUser.ts';
import type { Clock } from '../../src/util/clock.ts';
import { createRng } from '../../src/util/rng.ts';
import { ManualClock } from '../manualClock.ts';

const PERFECT = { kbitPerSecond: 1000, delayMs: 20, jitterMs: 0, loss: 0 };

/** 20 packets of 1250 bytes in a millisecond. */
const CAMPUS = { kbitPerSecond: LINES.campus.downKbit };

/** A clock whose timers take at least a millisecond, as those of Node do. */
class TimerClock extends ManualClock {
  override after(ms: number, fn: () => void): () => void {
    return super.after(Math.max(1, ms), fn);
  }
}

/** A clock whose last timer fires when a test calls `fire`. */
class StoppedClock implements Clock {
  time = 0;
  fire = (): void => {};

  now(): number {
    return this.time;
  }

  after(_ms: number, fn: () => void): () => void {
    this.fire = fn;
    return () => {};
  }
}

/** Sends packets of 125 bytes, which take a millisecond, and returns when each arrived. */
function arrivals(options: Partial<typeof PERFECT>, count: number): { at: number[]; way: OneWay } {
  const clock = new ManualClock();
  const way = new OneWay({ ...PERFECT, ...options }, clock, createRng(7));
  const at: number[] = [];
  for (let i = 0; i < count; i++) way.send(125, () => at.push(clock.now()));
  for (let ms = 0; ms < 1000; ms++) clock.advance(1);
  return { at, way };
}

describe('one direction of a line', () => {
  test('delays packets, and sends them in sequence at its rate', () => {
    expect(arrivals({}, 3).at).toEqual([21, 22, 23]);
  });

  test('keeps the order of packets with different delays', () => {
    const { at } = arrivals({ jitterMs: 10 }, 50);
    expect(at).toEqual(at.toSorted((a, b) => a - b));
    expect(at).toHaveLength(50);
  });

  test('loses the given share of packets, always the same ones for a seed', () => {
    const { at, way } = arrivals({ loss: 0.2, kbitPerSecond: 100_000 }, 1000);
    expect(at.length).toBeGreaterThan(760);
    expect(at.length).toBeLessThan(840);
    expect(way.counts.lost).toBe(1000 - at.length);
    expect(arrivals({ loss: 0.2, kbitPerSecond: 100_000 }, 1000).at).toEqual(at);
  });

  test('drops packets if its queue is longer than 100 ms', () => {
    const { at, way } = arrivals({}, 200);
    expect(way.counts.dropped).toBe(200 - at.length);
    expect(at.length).toBeGreaterThanOrEqual(100);
    expect(at.length).toBeLessThanOrEqual(102);
  });

  test('keeps the rate of a fast line, even if timers are a millisecond apart', () => {
    const clock = new TimerClock();
    const way = new OneWay({ ...PERFECT, ...CAMPUS }, clock, createRng(7));
    const at: number[] = [];
    for (let i = 0; i < 1000; i++) way.send(1250, () => at.push(clock.now()));
    clock.advance(1000);
    expect(at).toHaveLength(1000);
    // The line carries 20 packets in a millisecond.
    for (const [i, time] of at.entries()) expect(time).toBeLessThanOrEqual(20 + (i + 1) / 20 + 2);
  });

  test('delivers overdue packets in order and in short bursts when timers were late', () => {
    const clock = new StoppedClock();
    const way = new OneWay({ ...PERFECT, ...CAMPUS }, clock, createRng(7));
    const delivered: number[] = [];
    for (let i = 0; i < 100; i++) way.send(1250, () => delivered.push(i));
    clock.time = 90;
    const bursts: number[] = [];
    while (delivered.length < 100) {
      const before = delivered.length;
      clock.fire();
      bursts.push(delivered.length - before);
    }
    expect(bursts).toEqual([40, 40, 20]);
    expect(delivered).toEqual(Array.from({ length: 100 }, (_, i) => i));
  });

  test('drops new packets while a packet is overdue by more than 100 ms because timers are late', () => {
    const clock = new StoppedClock();
    const way = new OneWay(PERFECT, clock, createRng(7));
    let delivered = 0;
    const send = (): void => way.send(125, () => (delivered += 1));
    send();
    for (const time of [121, 122]) {
      clock.time = time;
      send();
    }
    expect(way.counts).toEqual({ packets: 2, lost: 0, dropped: 1 });
    clock.fire();
    expect(delivered).toBe(1);
    send();
    expect(way.counts.dropped).toBe(1);
  });

  test('has half of the delay between two tabs, because packets pass two lines', () => {
    const { up, down } = directionsOf(LINES.home);
    expect(2 * (up.delayMs + down.delayMs)).toBe(LINES.home.roundTripMs);
    expect([up.kbitPerSecond, down.kbitPerSecond]).toEqual([15_000, 100_000]);
  });
});

/** A STUN request with an attribute of five bytes before the user. */
function request(user: string): Buffer {
  const name = Buffer.from(user);
  const padded = Buffer.alloc(Math.ceil(name.length / 4) * 4);
  name.copy(padded);
  const packet = Buffer.alloc(20 + 12 + 4 + padded.length);
  packet.writeUInt16BE(3, 0);
  packet.writeUInt32BE(0x2112a442, 4);
  packet.writeUInt16BE(0x8022, 20);
  packet.writeUInt16BE(5, 22);
  packet.writeUInt16BE(6, 32);
  packet.writeUInt16BE(name.length, 34);
  padded.copy(packet, 36);
  return packet;
}

describe('the user of a TURN request', () => {
  test('is found after other attributes', () => {
    expect(turnUserOf(request('1764000000:ann'))).toBe('1764000000:ann');
  });

  test('is null for data and for truncated packets', () => {
    expect(turnUserOf(Buffer.from('some data that is not a request'))).toBeNull();
    expect(turnUserOf(request('ann').subarray(0, 30))).toBeNull();
    expect(turnUserOf(Buffer.alloc(0))).toBeNull();
  });
});

const LOOPBACK = '127.0.0.1';
const FAST = { upKbit: 100_000, downKbit: 100_000, roundTripMs: 0, jitterMs: 0, loss: 0 };
/** A packet of a request takes more than 100 ms. All packets that find no full queue are lost. */
const SLOW = { ...FAST, upKbit: 5, loss: 2 };

async function bind(): Promise<Socket> {
  const socket = createSocket('udp4');
  socket.bind(0, LOOPBACK);
  await once(socket, 'listening');
  return socket;
}

describe('a relay', () => {
  let clock: ManualClock;
  let server: Socket;
  let relay: LineRelay;
  /** Bytes of the packets that the server has received. */
  let received: number[];
  let tabs: Socket[];

  beforeEach(async () => {
    clock = new ManualClock();
    received = [];
    tabs = [];
    server = await bind();
    server.on('message', (packet, { port, address }) => {
      received.push(packet.length);
      server.send(`echo ${packet.length}`, port, address);
    });
    relay = await LineRelay.start({ turnPort: server.address().port, clock, seed: 1 });
  });
  afterEach(() => {
    relay.close();
    for (const socket of [server, ...tabs]) socket.close();
  });

  async function openTab(): Promise<Socket> {
    const tab = await bind();
    tabs.push(tab);
    return tab;
  }

  const sendFrom = (tab: Socket, packet: Buffer): void => tab.send(packet, relay.port, LOOPBACK);

  /** Sends a packet that takes 150 ms on the line of its user, or finds a full queue there. */
  async function occupy(tab: Socket, user: string): Promise<void> {
    const before = relay.losses;
    sendFrom(tab, request(user));
    await expect.poll(() => relay.losses).not.toEqual(before);
  }

  test('forwards packets between a tab and the server without delay if there are no lines', async () => {
    const tab = await openTab();
    sendFrom(tab, request('1764000000:ann'));
    const [answer] = (await once(tab, 'message')) as [Buffer];
    expect(answer.toString()).toBe('echo 52');
  });

  test("delays packets by both directions of their user's line", async () => {
    relay.setLines({ ...FAST, roundTripMs: 40 });
    const [ann, unknown] = [await openTab(), await openTab()];
    sendFrom(ann, request('1764000000:ann'));
    await expect.poll(() => clock.untilNext).toBeCloseTo(10, 1);
    // A tab without a user has no line, so its later packet arrives first.
    sendFrom(unknown, Buffer.from('data'));
    expect(String((await once(unknown, 'message'))[0])).toBe('echo 4');
    expect(received).toEqual([4]);
    clock.advance(11);
    await expect.poll(() => received).toEqual([4, 52]);
    const answered = once(ann, 'message');
    await expect.poll(() => clock.untilNext).toBeCloseTo(10, 1);
    clock.advance(11);
    expect(String((await answered)[0])).toBe('echo 52');
  });

  test('loses the share of packets that the line is set to lose', async () => {
    // Each direction of a line has half of the loss.
    relay.setLines({ ...FAST, loss: 2 });
    sendFrom(await openTab(), request('1764000000:ann'));
    await expect.poll(() => relay.losses).toEqual({ lost: 1, dropped: 0 });
    expect(received).toEqual([]);
  });

  test('has one line for all sockets of a user, and separate lines for other users', async () => {
    relay.setLines(SLOW);
    const [first, second, third] = [await openTab(), await openTab(), await openTab()];
    await occupy(first, '1764000000:ann');
    await occupy(second, '1764000001:ann');
    expect(relay.losses).toEqual({ lost: 1, dropped: 1 });
    await occupy(third, '1764000000:ben');
    expect(relay.losses).toEqual({ lost: 2, dropped: 1 });
  });

  test('uses the line of the user who used a port last', async () => {
    relay.setLines(SLOW);
    const [port, other] = [await openTab(), await openTab()];
    await occupy(port, '1764000000:ann');
    await occupy(port, '1764000000:ben');
    expect(relay.losses).toEqual({ lost: 2, dropped: 0 });
    await occupy(other, '1764000000:ben');
    expect(relay.losses).toEqual({ lost: 2, dropped: 1 });
  });
});
