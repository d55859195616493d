/**
 * Sends a flood of malicious messages to the server. The server must keep running, reveal nothing
 * about other rooms, and not grow in memory. Most messages are sent to the message handler in a
 * separate process, over sockets without a network. The others are sent to a real server over real
 * sockets.
 *
 * The whole flood takes two minutes on two busy cores:
 * `PEERGRAD_FUZZ_MESSAGES=1000000 npx vitest run test/signaling/room/fuzz.test.ts`.
 */
import { afterEach, expect, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import { LoadGenerator } from '../../../bench/signaling/child.ts';
import type { ServerMemory, ServerOptions, ServerReply } from '../../../bench/signaling/serverProcess.ts';
import { SIGNALING_PATH } from '../../../src/protocol/control.ts';
import type { BulkResult } from './fuzzBulk.ts';
import { FuzzArena, type FuzzKind, type FuzzMember } from './fuzzArena.ts';
import { enter, TestMember } from '../helpers.ts';

const FLOOD = process.env['PEERGRAD_FUZZ_MESSAGES'];
const MESSAGES = Number(FLOOD ?? 60_000);
/**
 * Share of the messages that is sent over real sockets. It is small because most messages end their
 * connection, and a new connection costs as much as ten messages.
 */
const REAL_SHARE = 0.1;
const SEED = 20_261;
/**
 * Bytes by which the heap may grow between a quarter of the messages and the end. A leak of 10
 * bytes per message would be more.
 */
const MAX_GROWTH = 6 * 1024 * 1024;

vi.setConfig({ testTimeout: 20_000 + MESSAGES });

let children: LoadGenerator[] = [];
afterEach(async () => {
  await Promise.all(children.map((child) => child.kill()));
  children = [];
});

/** Logs the figures of a flood whose size was requested. */
function logFigures(what: string, figures: object): void {
  if (FLOOD !== undefined) console.info(`Fuzz, ${what}: ${JSON.stringify(figures)}`);
}

function started(module: string, ...args: string[]): LoadGenerator {
  const child = new LoadGenerator(new URL(module, import.meta.url).href, ...args);
  children.push(child);
  return child;
}

test('the message handler mixes no rooms, throws nothing, and does not grow in memory', async () => {
  const messages = Math.round(MESSAGES * (1 - REAL_SHARE));
  const child = started('./fuzzBulk.ts', String(messages), String(SEED));
  const { handled, sent, received, leaks, errors, heap } = await child.next<BulkResult>();
  logFigures('handler', { handled, sent, received, heap });
  expect(leaks).toEqual([]);
  expect(errors).toBe(0);
  // The other messages are frames that do not arrive at the handler.
  expect(handled).toBeGreaterThan(messages * 0.9);
  for (const count of Object.values(sent)) expect(count).toBeGreaterThan(messages / 10);
  // If fewer messages had been received, there would have been no member that a message could leak
  // to.
  expect(received).toBeGreaterThan(messages / 100);
  expect(heap[1] - heap[0]).toBeLessThan(MAX_GROWTH);
});

/** Members that attack at the same time. */
const ATTACKERS = 32;
/** Messages that an attacker sends before it waits for the server. */
const BATCH = 20;
const BEYOND_ANY = 1e9;

/** Opens a connection, sends a batch, and waits until the server has read it or has closed. */
function attack(url: string, arena: FuzzArena, kinds: readonly FuzzKind[]): Promise<void> {
  return new Promise((resolve) => {
    const socket = new WebSocket(url);
    const member: FuzzMember = { room: null };
    socket.on('open', () => {
      socket.send(arena.join());
      for (let i = 0; i < BATCH; i++) socket.send(arena.next(member, kinds));
      socket.close();
    });
    socket.on('message', (data: Buffer) => arena.receive(member, data.toString()));
    socket.on('close', () => resolve());
    // A server that closes while the client still sends resets the connection.
    socket.on('error', () => {});
  });
}

test('a real server keeps running, mixes no rooms, and does not grow in memory', async () => {
  const messages = Math.round(MESSAGES * REAL_SHARE);
  const order: ServerOptions = {
    limits: {
      socketsPerAddress: BEYOND_ANY,
      connectionsPerSecond: BEYOND_ANY,
      connectionBurst: BEYOND_ANY,
      messagesPerSecond: BEYOND_ANY,
      messageBurst: BEYOND_ANY,
      wrongCodesPerMinute: BEYOND_ANY,
      restoresPerMinute: BEYOND_ANY,
      roomsPerMinute: BEYOND_ANY,
      roomBurst: BEYOND_ANY,
      emptyRoomMs: 500,
      maxRooms: 100,
    },
    rooms: 9,
    startAt: 2,
  };
  const child = started('../../../bench/signaling/serverProcess.ts', JSON.stringify(order));
  const server = await child.next<ServerReply>();
  const [quiet, ...known] = server.rooms;

  // Two members that train, in a room whose code is unknown to the attackers; their ids are known.
  const pair = [new TestMember(server), new TestMember(server)] as const;
  const admitted = await Promise.all(pair.map((one, i) => enter(one, quiet!, `quiet ${i}`)));
  const ids = admitted.map(({ id }) => id);
  const [prepared] = await Promise.all(pair.map((one) => one.next('prepare')));
  const { generation } = prepared!;
  for (const one of pair) await one.send({ type: 'linked', generation });
  for (const one of pair) await one.next('sync');
  for (const one of pair) await one.send({ type: 'synced', generation, step: 0, stateHash: 'same' });
  for (const one of pair) await one.next('go');
  const received: string[] = [];
  for (const one of pair) one.socket.on('message', (data: Buffer) => received.push(data.toString()));
  const heartbeats = setInterval(() => void pair.map((one) => one.send({ type: 'heartbeat' })), 1000);

  const arena = new FuzzArena(SEED, known, ids);
  const metric = async (name: string): Promise<number> => {
    const text = await (await fetch(`${server.url}/metrics`)).text();
    return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
  };
  const handled = () => metric('peergrad_message_handling_seconds_count');
  let quarter: ServerMemory | null = null;
  let count = 0;
  for (let round = 0; count < messages; round++) {
    // Only one kind of message ends the connection at a time. With all kinds together, the first
    // message would end it.
    const lasting: FuzzKind[] = ['cross-room', 'cross-room', 'cross-room', 'cross-room', 'replayed'];
    const kinds: FuzzKind[] = [...lasting, (['malformed', 'oversized', 'truncated'] as const)[round % 3]!];
    const url = server.url.replace(/^http/, 'ws') + SIGNALING_PATH;
    await Promise.all(Array.from({ length: ATTACKERS }, () => attack(url, arena, kinds)));
    count = await handled();
    if (quarter === null && count >= messages / 4) quarter = await child.ask<ServerMemory>({});
  }
  const end = await child.ask<ServerMemory>({});
  clearInterval(heartbeats);
  console.info(
    `Fuzz, server: ${JSON.stringify({ handled: count, sent: arena.sent, received: arena.received, quarter, end })}`,
  );

  expect(arena.leaks).toEqual([]);
  expect(arena.received).toBeGreaterThan(0);
  expect(end.heapUsed - quarter!.heapUsed).toBeLessThan(MAX_GROWTH);
  // The two members received only heartbeats and messages of their own room, and they can continue.
  const foreign = received.filter(
    (text) => !/^\{"type":"(heartbeat|room|room-delta)"/.test(text) || text.includes('in room'),
  );
  expect(foreign).toEqual([]);
  const signal = { type: 'offer' as const, sdp: 'v=0' };
  await pair[0].send({ type: 'signal', generation, to: ids[1]!, attempt: 0, signal });
  expect(await pair[1].next('signal')).toMatchObject({ from: ids[0], signal });
  for (const one of pair) one.socket.terminate();
  expect(child.stderr).toBe('');
});
