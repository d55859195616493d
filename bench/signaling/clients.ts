/**
 * Thousands of members in one process: opens WebSockets, joins rooms, sends heartbeats at the
 * server's pace, and reads whatever comes. Each message to it opens more of them, and is answered
 * once they are in.
 */
import { WebSocket } from 'ws';
import { type ClientMessage, PROTOCOL_VERSION, SIGNALING_PATH } from '../../src/protocol/control.ts';
import { DEFAULT_LIMITS } from '../../signaling/index.ts';

export interface ClientsOrder {
  url: string;
  /** One after the other gets the next client. */
  rooms: readonly string[];
  clients: number;
  /** So many are on their way in at once; the rest waits. */
  atOnce: number;
}

export interface ClientsIn {
  /** Milliseconds from the first attempt until the last client was in. */
  ms: number;
  /** Clients that did not get in. */
  failures: number;
}

/** Heartbeats are spread over their period, in so many parts: clients do not beat as one. */
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

/** Whether the room took it. */
function enter(url: string, room: string, name: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = new WebSocket(url, { perMessageDeflate: false });
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
  const one = async (): Promise<void> => {
    while (next < clients) {
      const i = next++;
      if (!(await enter(url + SIGNALING_PATH, rooms[i % rooms.length]!, `client ${i}`))) failures++;
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, clients) }, one));
  return { ms: performance.now() - startedAt, failures };
}

async function obey(order: ClientsOrder): Promise<void> {
  process.send!(await open({ ...order, url: order.url.replace(/^http/, 'ws') }));
}

process.on('message', (order: ClientsOrder) => void obey(order));
process.on('disconnect', () => process.exit());
