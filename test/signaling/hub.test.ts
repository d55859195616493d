import { pino } from 'pino';
import { afterEach, expect, test } from 'vitest';
import { Connection, type ServerContext } from '../../signaling/connection.ts';
import { Credentials } from '../../signaling/credentials.ts';
import { Hub } from '../../signaling/hub.ts';
import { NO_ICE } from '../../signaling/ice.ts';
import { AddressBuckets, DEFAULT_LIMITS, FailureCounter } from '../../signaling/limits.ts';
import { Metrics } from '../../signaling/monitoring/metrics.ts';
import { RoomLog } from '../../signaling/monitoring/roomLog.ts';
import { localRoomDirectory, type RoomDirectory } from '../../signaling/roomDirectory.ts';
import { PROTOCOL_VERSION, type ServerMessage } from '../../src/protocol/control.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { ManualClock } from '../manualClock.ts';
import { FakeSocket } from './fakeSocket.ts';

const clock = new ManualClock();
const log = pino({ level: 'silent' });
const metrics = new Metrics(() => ({ rooms: 0, connections: 0, members: 0 }));
const roomLog = new RoomLog(log, metrics);
const hub = new Hub({ clock, limits: DEFAULT_LIMITS, listener: roomLog, hasRelay: false, seal: () => 'seal' });
afterEach(() => hub.close());

function openRoom(): string {
  return hub.open({ job: DEFAULT_JOB, startAt: null, nodes: null, isPermanent: false })!;
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
  return { socket, sent };
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
