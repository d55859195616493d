import { pino } from 'pino';
import { afterEach, expect, test } from 'vitest';
import { Connection, type ServerContext } from '../../signaling/connection.ts';
import { Credentials } from '../../signaling/credentials.ts';
import { Hub } from '../../signaling/hub.ts';
import { NO_ICE } from '../../signaling/ice.ts';
import { AddressBuckets, DEFAULT_LIMITS, FailureCounter } from '../../signaling/limits.ts';
import { Metrics } from '../../signaling/monitoring/metrics.ts';
import { RoomLog } from '../../signaling/monitoring/roomLog.ts';
import { AWAY_MS } from '../../signaling/room/index.ts';
import { localRoomDirectory, type RoomDirectory } from '../../signaling/roomDirectory.ts';
import { PROTOCOL_VERSION, type ServerMessage } from '../../src/protocol/control.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { ManualClock } from '../manualClock.ts';
import { FakeSocket } from './fakeSocket.ts';

const clock = new ManualClock();
const log = pino({ level: 'silent' });
const metrics = new Metrics(() => ({ rooms: 0, connections: 0, members: 0, serverLinks: 0 }));
const roomLog = new RoomLog(log, metrics);
const left: [room: string, member: string][] = [];
const hub = new Hub({
  clock,
  limits: DEFAULT_LIMITS,
  listener: {
    opened: (code) => roomLog.opened(code),
    forgotten: (code) => roomLog.forgotten(code),
    left: (...one) => left.push(one),
    generationBegun: (...begun) => roomLog.generationBegun(...begun),
  },
  hasRelay: false,
  serverLinks: 'on',
  serverLinksRate: 1e6,
  seal: () => 'seal',
});
afterEach(() => {
  hub.close();
  left.length = 0;
});

function openRoom(startAt: number | null = null): string {
  return hub.open({ job: DEFAULT_JOB, startAt, nodes: null, isPermanent: false })!;
}

/** Joins `room` as a newcomer; returns its socket and the server's messages. */
async function join(room: string, rooms: RoomDirectory = localRoomDirectory(hub)) {
  const sent: ServerMessage[] = [];
  const socket = new FakeSocket((text) => sent.push(JSON.parse(text) as ServerMessage));
  const context: ServerContext = {
    hub,
    rooms,
    clock,
    limits: DEFAULT_LIMITS,
    log,
    metrics,
    ice: NO_ICE,
    serverLinks: 'on',
    bootId: 'boot',
    startedAt: 0,
    roomLog,
    credentials: new Credentials('the secret of the test'),
    wrongCodes: new FailureCounter(clock, 100),
    restores: new FailureCounter(clock, 100),
    openings: new AddressBuckets(clock, 100, 100),
  };
  void new Connection(socket.socket, '192.0.2.1', context);
  socket.receive(JSON.stringify({ type: 'join', version: PROTOCOL_VERSION, room, name: 'Ada' }));
  await new Promise(setImmediate);
  const admitted = sent.find(({ type }) => type === 'admitted') as { member: string } | undefined;
  return { socket, sent, member: admitted?.member ?? '' };
}

test('a newcomer to a locked room is refused; if its room is dropped meanwhile, it learns that the server closes', async () => {
  const room = openRoom();
  const { socket: host } = await join(room);
  host.receive(JSON.stringify({ type: 'lock', isLocked: true }));

  const refused = await join(room);
  expect(refused.sent).toMatchObject([{ type: 'refused', code: 'room-locked' }]);
  expect(refused.socket.closedWith).toBe(1008);

  // The directory finds the room, but the room is dropped before the newcomer enters.
  const rooms: RoomDirectory = { ...localRoomDirectory(hub), find: () => Promise.resolve(hub) };
  hub.forget(room);
  const late = await join(room, rooms);
  expect(late.sent).toMatchObject([{ type: 'refused', code: 'server-closing' }]);
  expect(late.socket.closedWith).toBe(1012);
});

test('members may link while both are ranks of the latest generation; the listener learns when one has left', async () => {
  const room = openRoom(2);
  const [ada, bo, cy] = [await join(room), await join(room), await join(room)];
  for (const { socket } of [ada, bo]) {
    socket.receive(JSON.stringify({ type: 'ready', device: { backend: 'cpu', adapter: 'test' }, stateOfRun: null }));
  }
  const { generation } = ada.sent.find(({ type }) => type === 'prepare') as { generation: number };
  const may = (number: number, one: string, other: string) => hub.mayLink(room, number, one, other);
  expect(may(generation, ada.member, bo.member)).toBe(true);
  expect(may(generation, bo.member, ada.member)).toBe(true);
  expect(may(generation - 1, ada.member, bo.member)).toBe(false);
  expect(may(generation + 1, ada.member, bo.member)).toBe(false);
  expect(may(generation, ada.member, ada.member)).toBe(false);
  expect(may(generation, ada.member, cy.member)).toBe(false);
  expect(hub.mayLink('ZZZZZZ', generation, ada.member, bo.member)).toBe(false);

  // A lost connection is not a departure yet.
  bo.socket.close(1006);
  expect(may(generation, ada.member, bo.member)).toBe(true);
  expect(left).toEqual([]);
  clock.advance(AWAY_MS);
  expect(may(generation, ada.member, bo.member)).toBe(false);
  expect(left).toEqual([[room, bo.member]]);
  ada.socket.receive(JSON.stringify({ type: 'leave' }));
  expect(left).toEqual([
    [room, bo.member],
    [room, ada.member],
  ]);
});
