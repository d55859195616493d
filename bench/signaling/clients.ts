/**
 * A process with clients of the signaling server: thousands that only stay connected, or the
 * members of one room, each of which knows who is in it. A message to this process is an order, and
 * is answered when it is done.
 */
import { WebSocket } from 'ws';
import { type ClientMessage, PROTOCOL_VERSION } from '../../src/protocol/control.ts';
import { systemClock } from '../../src/util/clock.ts';
import { within } from '../../src/util/deadline.ts';
import { deferred } from '../../src/util/deferred.ts';
import { PeergradError } from '../../src/util/errors.ts';
import { DEFAULT_LIMITS } from '../../signaling/index.ts';
import { Member, socketTo } from './members.ts';

/** Connects clients that stay connected. They are in no {@link RoomOrder}. */
export interface CrowdOrder {
  type: 'crowd';
  url: string;
  /** Codes of the rooms. Clients join them in turn. */
  rooms: readonly string[];
  clients: number;
  /** Maximum number of clients that join simultaneously. Further clients wait. */
  atOnce: number;
}

export interface CrowdReply {
  /** Milliseconds from the first attempt until the last client was admitted. */
  ms: number;
  /** Number of clients that were not admitted. */
  failures: number;
}

/** Members join one room, one after the other, and leave in the same order. */
export type RoomOrder = { type: 'join'; url: string; room: string; members: number } | { type: 'leave' };

/** The cost of a member that joined or left. */
export interface ChangeCost {
  /** Bytes of the messages that the server sent to all members, without WebSocket headers. */
  bytes: number;
  /** Milliseconds until all members knew the change. */
  ms: number;
}

/**
 * Number of parts into which the heartbeat period is divided. Each part of the crowd sends
 * heartbeats at another time.
 */
const PARTS = 50;
/** Maximum milliseconds until all members know a change. */
const CHANGE_MS = 30_000;

const HEARTBEAT = JSON.stringify({ type: 'heartbeat' } satisfies ClientMessage);
const crowd: WebSocket[] = [];
let part = 0;
setInterval(() => {
  part = (part + 1) % PARTS;
  for (let i = part; i < crowd.length; i += PARTS) {
    if (crowd[i]!.readyState === WebSocket.OPEN) crowd[i]!.send(HEARTBEAT);
  }
}, DEFAULT_LIMITS.heartbeatMs / PARTS);

const joining = (room: string, name: string): ClientMessage => ({
  ...{ type: 'join', version: PROTOCOL_VERSION, room, name },
});

/** Joins a room with a new client. Resolves with whether the server admitted the client. */
function enter(url: string, room: string, name: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = socketTo(url);
    socket.once('open', () => socket.send(JSON.stringify(joining(room, name))));
    socket.once('message', (data: Buffer) => {
      crowd.push(socket);
      resolve(data.toString().startsWith('{"type":"admitted"'));
    });
    socket.on('error', () => resolve(false));
    socket.on('close', () => resolve(false));
  });
}

async function gather({ url, rooms, clients, atOnce }: CrowdOrder): Promise<CrowdReply> {
  const startedAt = performance.now();
  let next = 0;
  let failures = 0;
  const openClients = async (): Promise<void> => {
    while (next < clients) {
      const i = next++;
      if (!(await enter(url, rooms[i % rooms.length]!, `client ${i}`))) failures++;
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, clients) }, openClients));
  return { ms: performance.now() - startedAt, failures };
}

/** The members of the room. */
const members: Member[] = [];

/** Sends `message` and waits until all members know the new number of members. */
async function change(sender: Member, message: ClientMessage): Promise<ChangeCost> {
  const { promise, resolve } = deferred();
  let bytes = 0;
  for (const member of members) {
    member.onmessage = (length) => {
      bytes += length;
      if (members.every(({ known }) => known === members.length)) resolve();
    };
  }
  const startedAt = performance.now();
  sender.send(message);
  const late = (): Error =>
    new PeergradError(`Some of ${members.length} members did not know a change within ${CHANGE_MS / 1000} s.`);
  await within(systemClock, CHANGE_MS, promise, late);
  return { bytes, ms: performance.now() - startedAt };
}

async function join({ url, room, members: count }: Extract<RoomOrder, { type: 'join' }>): Promise<ChangeCost[]> {
  const costs: ChangeCost[] = [];
  for (let i = 0; i < count; i++) {
    const member = await Member.connect(url);
    members.push(member);
    costs.push(await change(member, joining(room, `member ${i}`)));
  }
  return costs;
}

/** All members leave but the last, because nobody would know that it has left. */
async function leave(): Promise<ChangeCost[]> {
  const costs: ChangeCost[] = [];
  while (members.length > 1) costs.push(await change(members.shift()!, { type: 'leave' }));
  return costs;
}

async function obey(order: CrowdOrder | RoomOrder): Promise<CrowdReply | ChangeCost[]> {
  switch (order.type) {
    case 'crowd':
      return gather(order);
    case 'join':
      return join(order);
    case 'leave':
      return leave();
    default:
      return order satisfies never;
  }
}

process.on('message', (order: CrowdOrder | RoomOrder) => void obey(order).then((reply) => process.send!(reply)));
process.on('disconnect', () => process.exit());
