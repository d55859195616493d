/**
 * Sends a flood to the message handler in a separate process. The process has the rooms, the hub
 * and the connections of a server, but its sockets have no network. It reports the number of
 * handled messages, the leaks, and the heap after a quarter of the messages and after all.
 */
import { setImmediate } from 'node:timers/promises';
import { pino } from 'pino';
import { MAX_CONTROL_BYTES } from '../../../src/protocol/control.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import { Connection, type ServerContext } from '../../../signaling/connection.ts';
import { Credentials } from '../../../signaling/credentials.ts';
import { Hub } from '../../../signaling/hub.ts';
import { NO_ICE } from '../../../signaling/ice.ts';
import { AddressBuckets, DEFAULT_LIMITS, FailureCounter } from '../../../signaling/limits.ts';
import { Metrics } from '../../../signaling/monitoring/metrics.ts';
import { RoomLog } from '../../../signaling/monitoring/roomLog.ts';
import { localRoomDirectory } from '../../../signaling/roomDirectory.ts';
import { ManualClock } from '../../manualClock.ts';
import { FakeSocket } from '../fakeSocket.ts';
import { FuzzArena, type FuzzMember } from './fuzzArena.ts';

export interface BulkResult {
  handled: number;
  sent: Record<string, number>;
  received: number;
  leaks: string[];
  errors: number;
  /** Used bytes of the heap after a quarter of the messages, and after all. */
  heap: [number, number];
}

const [messages, seed] = process.argv.slice(2).map(Number) as [number, number];
const ROOMS = 8;
const PLACES = 64;
/**
 * Number of messages in one turn of the event loop, and simulated seconds that pass in each turn.
 */
const TURN = 64;
const SECONDS_PER_TURN = 0.05;

const clock = new ManualClock();
const many = Number.MAX_SAFE_INTEGER;
const limits = { ...DEFAULT_LIMITS, messagesPerSecond: many, messageBurst: many };
const metrics = new Metrics(() => ({ rooms: hub.rooms, connections: PLACES, members: 0, serverLinks: 0 }));
let errors = 0;
const log = pino({ level: 'error' }, { write: () => void errors++ });
const roomLog = new RoomLog(log, metrics);
const credentials = new Credentials('the secret of the fuzz');
const hub: Hub = new Hub({
  clock,
  limits,
  listener: {
    opened: (code) => roomLog.opened(code),
    forgotten: (code) => roomLog.forgotten(code),
    left: () => {},
    generationBegun: (...begun) => roomLog.generationBegun(...begun),
  },
  serverLinks: 'on',
  serverLinksRate: 1e6,
  hasRelay: false,
  seal: (room, members) => credentials.sealOf(room, members),
});
const context: ServerContext = {
  hub,
  rooms: localRoomDirectory(hub),
  clock,
  limits,
  log,
  metrics,
  ice: NO_ICE,
  serverLinks: 'on',
  bootId: 'boot',
  startedAt: 0,
  credentials,
  wrongCodes: new FailureCounter(clock, many),
  restores: new FailureCounter(clock, many),
  openings: new AddressBuckets(clock, many, many),
  roomLog,
};
const codes = Array.from({ length: ROOMS }, (_, i) =>
  hub.open({
    job: DEFAULT_JOB,
    startAt: 2 + (i % 3),
    nodes: i % 2 === 0 ? null : { min: 1, max: 4 },
    isPermanent: true,
  })!,
);
const arena = new FuzzArena(seed, codes);

interface Place extends FuzzMember {
  socket: FakeSocket;
}

function connect(): Place {
  const member: Place = { room: null, socket: new FakeSocket((text) => arena.receive(member, text)) };
  void new Connection(member.socket.socket, '192.0.2.1', context);
  return member;
}

function heapUsed(): number {
  globalThis.gc!();
  return process.memoryUsage().heapUsed;
}

const places = Array.from({ length: PLACES }, connect);
let quarter = 0;
for (let i = 0; i < messages; i++) {
  const at = i % PLACES;
  if (places[at]!.socket.closedWith !== null) {
    places[at] = connect();
    // Most join first: members can send more kinds of messages than strangers.
    if (i % 4 !== 0) places[at].socket.receive(arena.join());
  }
  const data = arena.next(places[at]!);
  // Longer frames do not arrive at the handler.
  if (Buffer.byteLength(data) <= MAX_CONTROL_BYTES) places[at]!.socket.receive(data);
  else places[at]!.socket.close(1009);
  if (i % TURN === 0) {
    clock.advance(SECONDS_PER_TURN * 1000);
    // Sends the messages that wait for the end of the turn.
    await setImmediate();
  }
  if (i === Math.floor(messages / 4)) quarter = heapUsed();
}
const handled = Number(/seconds_count (\d+)/.exec(await metrics.text())?.[1]);
const { sent, received, leaks } = arena;
process.send!({ handled, sent, received, leaks, errors, heap: [quarter, heapUsed()] } satisfies BulkResult);
process.disconnect();
