/**
 * A process with thousands of clients of the signaling server. Each client opens a WebSocket, joins
 * a room, sends heartbeats at the server's interval, and reads all messages. A message to this
 * process opens more clients. It is answered when the server has admitted them.
 */
import { WebSocket } from 'ws';
import { type ClientMessage, PROTOCOL_VERSION } from '../../src/protocol/control.ts';
import { DEFAULT_LIMITS } from '../../signaling/index.ts';
import { socketTo } from './members.ts';

export interface ClientsOrder {
  url: string;
  /** Codes of the rooms. Clients join them in turn. */
  rooms: readonly string[];
  clients: number;
  /** Maximum number of clients that join simultaneously. Further clients wait. */
  atOnce: number;
}

export interface ClientsIn {
  /** Milliseconds from the first attempt until the last client was admitted. */
  ms: number;
  /** Number of clients that were not admitted. */
  failures: number;
}

/**
 * Number of parts into which the heartbeat period is divided. Each part of the clients sends
 * heartbeats at another time.
 */
const PARTS = 50;

const HEARTBEAT = JSON.stringify({ type: 'heartbeat' } satisfies ClientMessage);
const members: WebSocket[] = [];
let part = 0;
setInterval(() => {
  part = (part + 1) % PARTS;
  for (let i = part; i < members.length; i += PARTS) {
    if (members[i]!.readyState === WebSocket.OPEN) members[i]!.send(HEARTBEAT);
  }
}, DEFAULT_LIMITS.heartbeatMs / PARTS);

/** Joins a room with a new client. Resolves with whether the server admitted the client. */
function enter(url: string, room: string, name: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = socketTo(url);
    const hello: ClientMessage = { type: 'join', version: PROTOCOL_VERSION, room, name };
    socket.once('open', () => socket.send(JSON.stringify(hello)));
    socket.once('message', (data: Buffer) => {
      members.push(socket);
      resolve(data.toString().startsWith('{"type":"admitted"'));
    });
    socket.on('error', () => resolve(false));
    socket.on('close', () => resolve(false));
  });
}

async function open({ url, rooms, clients, atOnce }: ClientsOrder): Promise<ClientsIn> {
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

process.on('message', (order: ClientsOrder) => void open(order).then((reply) => process.send!(reply)));
process.on('disconnect', () => process.exit());
