import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { ServerMessage } from '../../src/protocol/control.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { Metrics } from '../../signaling/monitoring/metrics.ts';
import { Outbox } from '../../signaling/outbox.ts';
import { FakeSocket } from './fakeSocket.ts';
import { testServers } from './helpers.ts';

const { start, member } = testServers();

const room = (generation: number): ServerMessage => ({
  type: 'room',
  phase: 'FORMING',
  run: 0,
  generation,
  hasTrained: false,
  hosts: [],
  members: [],
  job: DEFAULT_JOB,
  startAt: null,
  nodes: null,
  spectators: [],
  isLocked: false,
  isPausedByHost: false,
  waitingFor: 0,
});
const sync = (generation: number): ServerMessage => ({ type: 'sync', generation });

/** Returns an outbox, and the messages that the other end has read, such as "room 1". */
function outbox() {
  const taken: string[] = [];
  const socket = new FakeSocket((text) => {
    const { type, generation = '' } = JSON.parse(text) as { type: string; generation?: number };
    taken.push(`${type} ${generation}`.trim());
  });
  const box = new Outbox(socket.socket, new Metrics(() => ({ rooms: 0, connections: 0, members: 0, serverLinks: 0 })));
  return { box, socket, taken };
}

test('only the last of the room messages in one turn of the event loop is sent', async () => {
  const { box, taken } = outbox();
  for (let generation = 1; generation <= 5; generation++) box.send(room(generation));
  expect(taken).toEqual([]);
  await setImmediate();
  expect(taken).toEqual(['room 5']);
  box.send(room(6));
  await setImmediate();
  expect(taken).toEqual(['room 5', 'room-delta 6']);
});

test('an answer to a heartbeat is sent before a waiting room message, and other messages are sent after it', async () => {
  const { box, taken } = outbox();
  box.send(room(1));
  box.send({ type: 'heartbeat' });
  box.send(room(2));
  box.send(sync(2));
  box.send(room(3));
  await setImmediate();
  expect(taken).toEqual(['heartbeat', 'room 2', 'sync 2', 'room-delta 3']);
});

test('a slow reader receives only the last of the room messages that have waited for it', async () => {
  const { box, socket, taken } = outbox();
  socket.isReading = false;
  box.send(room(1));
  await setImmediate();
  const unsent = socket.bufferedAmount;
  expect(unsent).toBeGreaterThan(0);
  for (let generation = 2; generation < 100; generation++) {
    box.send(room(generation));
    await setImmediate();
  }
  expect(socket.bufferedAmount).toBe(unsent);
  socket.isReading = true;
  socket.read();
  await setImmediate();
  expect(taken).toEqual(['room 1', 'room-delta 99']);
});

test('nothing is sent to a closed connection', async () => {
  const { box, socket, taken } = outbox();
  box.send(room(1));
  socket.close(1000);
  await setImmediate();
  box.send(sync(1));
  expect(taken).toEqual([]);
});

test('tabs that join together do not each receive a room message for every change', async () => {
  const server = await start();
  const code = server.createRoom({ job: DEFAULT_JOB, startAt: null });
  const CROWD = 64;
  let received = 0;
  const members = Array.from({ length: CROWD }, () => member(server));
  await Promise.all(members.map((one) => one.opened()));
  for (const one of members) {
    one.socket.on('message', (data: Buffer) => (received += data.toString().startsWith('{"type":"room') ? 1 : 0));
  }
  await Promise.all(members.map((one, i) => one.join(code, `pupil ${i}`)));
  await Promise.all(members.map((one) => one.next('room', ({ members: all }) => all.length === CROWD)));
  // This is the number of messages that would arrive if every member received every change.
  expect(received).toBeLessThan((CROWD * (CROWD + 1)) / 2);
});
