/**
 * A process with the members of one room. They join one after the other, and leave in the same
 * order. After each change this process waits until all members know it.
 */
import { WebSocket } from 'ws';
import { type ClientMessage, PROTOCOL_VERSION, SIGNALING_PATH } from '../../src/protocol/control.ts';
import { DeltaDecoder } from '../../src/protocol/deltaDecoder.ts';
import type { SentMessage } from '../../src/protocol/deltas.ts';
import { systemClock } from '../../src/util/clock.ts';
import { within } from '../../src/util/deadline.ts';
import { deferred } from '../../src/util/deferred.ts';
import { PeergradError } from '../../src/util/errors.ts';
import { DEFAULT_LIMITS } from '../../signaling/index.ts';

export type RoomOrder = { type: 'join'; url: string; room: string; members: number } | { type: 'leave' };

/** The cost of a member that joined or left. */
export interface ChangeCost {
  /** Bytes of the messages that the server sent to all members, without WebSocket headers. */
  bytes: number;
  /** Milliseconds until all members knew the change. */
  ms: number;
}

/** Maximum milliseconds until all members know a change. */
const CHANGE_MS = 30_000;

class Member {
  readonly #socket: WebSocket;
  /** Number of members of the room, as far as this member knows. */
  known = 0;

  constructor(url: string, onmessage: (bytes: number) => void) {
    const decoder = new DeltaDecoder();
    this.#socket = new WebSocket(url, { perMessageDeflate: false });
    this.#socket.on('message', (data: Buffer) => {
      const message = decoder.decode(JSON.parse(data.toString()) as SentMessage);
      if (message.type === 'heartbeat') return;
      if (message.type === 'room') this.known = message.members.length;
      onmessage(data.length);
    });
  }

  async opened(): Promise<void> {
    await new Promise((resolve, reject) => {
      this.#socket.once('open', resolve);
      this.#socket.once('error', reject);
    });
  }

  send(message: ClientMessage): void {
    this.#socket.send(JSON.stringify(message));
  }
}

const members: Member[] = [];
let bytes = 0;
let onmessage: () => void = () => {};
setInterval(() => {
  for (const member of members) member.send({ type: 'heartbeat' });
}, DEFAULT_LIMITS.heartbeatMs);

/** Sends `message` and waits until all members know the new number of members. */
async function change(sender: Member, message: ClientMessage): Promise<ChangeCost> {
  const { promise, resolve } = deferred();
  onmessage = () => {
    if (members.every(({ known }) => known === members.length)) resolve();
  };
  bytes = 0;
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
    const member = new Member(url.replace(/^http/, 'ws') + SIGNALING_PATH, (length) => {
      bytes += length;
      onmessage();
    });
    await member.opened();
    members.push(member);
    costs.push(await change(member, { type: 'join', version: PROTOCOL_VERSION, room, name: `member ${i}` }));
  }
  return costs;
}

/** All members leave but the last, because nobody would know that it has left. */
async function leave(): Promise<ChangeCost[]> {
  const costs: ChangeCost[] = [];
  while (members.length > 1) costs.push(await change(members.shift()!, { type: 'leave' }));
  return costs;
}

async function obey(order: RoomOrder): Promise<void> {
  process.send!(order.type === 'join' ? await join(order) : await leave());
}

process.on('message', (order: RoomOrder) => void obey(order));
process.on('disconnect', () => process.exit());
