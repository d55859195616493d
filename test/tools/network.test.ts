/** Lines of the test network. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { LineRelay } from '../../tools/network/lineRelay.ts';
import { directionsOf, LINES } from '../../tools/network/lines.ts';
import { OneWay } from '../../tools/network/oneWay.ts';
import { turnUserOf } from '../../tools/network/turnUser.ts';
import { systemClock } from '../../src/util/clock.ts';
import { createRng } from '../../src/util/rng.ts';
import { ManualClock } from '../manualClock.ts';

const PERFECT = { kbitPerSecond: 1000, delayMs: 20, jitterMs: 0, loss: 0 };

/** Sends packets of 125 bytes, which take a millisecond, and returns when each arrived. */
function arrivals(options: Partial<typeof PERFECT>, count: number): { at: number[]; way: OneWay } {
  const clock = new ManualClock();
  const way = new OneWay({ ...PERFECT, ...options }, clock, createRng(7));
  const at: number[] = [];
  for (let i = 0; i < count; i++) way.send(125, () => at.push(clock.now()));
  for (let ms = 0; ms < 1000; ms++) clock.advance(1);
  return { at, way };
}

describe('a direction of a line', () => {
  test('delays packets, and sends one after the other at its rate', () => {
    expect(arrivals({}, 3).at).toEqual([21, 22, 23]);
  });

  test('keeps the order of packets with different delays', () => {
    const { at } = arrivals({ jitterMs: 10 }, 50);
    expect(at).toEqual(at.toSorted((a, b) => a - b));
    expect(at).toHaveLength(50);
  });

  test('loses the given share of packets, the same ones for a seed', () => {
    const { at, way } = arrivals({ loss: 0.2, kbitPerSecond: 100_000 }, 1000);
    expect(at.length).toBeGreaterThan(760);
    expect(at.length).toBeLessThan(840);
    expect(way.counts.lost).toBe(1000 - at.length);
    expect(arrivals({ loss: 0.2, kbitPerSecond: 100_000 }, 1000).at).toEqual(at);
  });

  test('drops packets that find a queue of more than 100 ms', () => {
    const { at, way } = arrivals({}, 200);
    expect(way.counts.dropped).toBe(200 - at.length);
    expect(at.length).toBeGreaterThanOrEqual(100);
    expect(at.length).toBeLessThanOrEqual(102);
  });

  test('has half of the delay between two tabs, because a packet passes two lines', () => {
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
  test('is read behind other attributes', () => {
    expect(turnUserOf(request('1764000000:ann'))).toBe('1764000000:ann');
  });

  test('is missing in data and in cut packets', () => {
    expect(turnUserOf(Buffer.from('some data that is not a request'))).toBeNull();
    expect(turnUserOf(request('ann').subarray(0, 30))).toBeNull();
    expect(turnUserOf(Buffer.alloc(0))).toBeNull();
  });
});

test('a relay carries packets both ways between a tab and the server', async () => {
  const server = createSocket('udp4');
  server.bind(0, '127.0.0.1');
  await once(server, 'listening');
  server.on('message', (packet, { port, address }) => server.send(`echo ${packet.length}`, port, address));
  const relay = await LineRelay.start({ turnPort: server.address().port, clock: systemClock, seed: 1 });
  relay.setLines({ ...LINES.campus, roundTripMs: 4 });
  const tab = createSocket('udp4');
  tab.send(request('1764000000:ann'), relay.port, '127.0.0.1');
  const [answer] = (await once(tab, 'message')) as [Buffer];
  expect(answer.toString()).toBe('echo 52');
  tab.close();
  relay.close();
  server.close();
});
