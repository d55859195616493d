/** Members of a room of the signaling server, in Node. */
import { once } from 'node:events';
import { WebSocket } from 'ws';
import {
  type ClientMessage,
  PROTOCOL_VERSION,
  type ServerMessage,
  SIGNALING_PATH,
} from '../../src/protocol/control.ts';
import type { PeerSignal } from '../../src/protocol/linkSignal.ts';
import { DeltaDecoder } from '../../src/protocol/deltaDecoder.ts';
import type { SentMessage } from '../../src/protocol/deltas.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { socketUrl } from '../../src/util/socketUrl.ts';
import { DEFAULT_LIMITS } from '../../signaling/limits.ts';

type Of<Type extends ServerMessage['type']> = Extract<ServerMessage, { type: Type }>;

/** Opens a WebSocket to the server at the http address `url`. */
export function socketTo(url: string): WebSocket {
  return new WebSocket(socketUrl(SIGNALING_PATH, url), { perMessageDeflate: false });
}

/** The WebSocket of a member. */
class Member {
  readonly #socket: WebSocket;
  #awaited: { type: string; resolve: (message: ServerMessage) => void; reject: (error: Error) => void } | null = null;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    const heartbeats = setInterval(() => this.send({ type: 'heartbeat' }), DEFAULT_LIMITS.heartbeatMs);
    const decoder = new DeltaDecoder();
    socket.on('message', (data: Buffer) => {
      const message = decoder.decode(JSON.parse(data.toString()) as SentMessage);
      if (message.type === this.#awaited?.type) this.#awaited.resolve(message);
    });
    socket.on('close', (code, reason) => {
      clearInterval(heartbeats);
      this.#awaited?.reject(new Error(`The server closed a connection with code ${code} (${reason.toString()}).`));
    });
  }

  static async connect(url: string): Promise<Member> {
    const socket = socketTo(url);
    await once(socket, 'open');
    return new Member(socket);
  }

  send(message: ClientMessage): void {
    this.#socket.send(JSON.stringify(message));
  }

  /** Resolves with the next message of `type` that arrives after the call. */
  async next<Type extends ServerMessage['type']>(type: Type): Promise<Of<Type>> {
    const { promise, resolve, reject } = createDeferred<ServerMessage>();
    this.#awaited = { type, resolve, reject };
    return (await promise) as Of<Type>;
  }

  leave(): void {
    this.send({ type: 'leave' });
    this.#socket.close();
  }
}

/** A member of a running room. */
export interface JoinedMember {
  member: Member;
  id: string;
  token: string;
}

/**
 * Joins `n` members to a room that starts its run with as many. Resolves with them in the order of
 * ranks when the run has begun.
 */
export async function startRun(
  url: string,
  room: string,
  n: number,
): Promise<{ generation: number; ranks: JoinedMember[] }> {
  const all = await Promise.all(Array.from({ length: n }, () => Member.connect(url)));
  const admissions = all.map((member) => member.next('admitted'));
  for (const [i, member] of all.entries()) {
    member.send({ type: 'join', version: PROTOCOL_VERSION, room, name: `member ${i}`, rank: i });
  }
  const joined = (await Promise.all(admissions)).map(({ member: id, token }, i) => ({ member: all[i]!, id, token }));
  const device = { backend: 'cpu', adapter: 'none' } as const;
  const prepared = Promise.all(all.map((member) => member.next('prepare')));
  for (const member of all) member.send({ type: 'ready', device, stateOfRun: null });
  const [{ generation, members }] = (await prepared) as [Of<'prepare'>];
  const synced = Promise.all(all.map((member) => member.next('sync')));
  for (const member of all) member.send({ type: 'linked', generation });
  await synced;
  const running = Promise.all(all.map((member) => member.next('go')));
  for (const member of all) member.send({ type: 'synced', generation, step: 0, stateHash: 'same' });
  await running;
  return { generation, ranks: members.map((entry) => joined.find(({ id }) => id === entry.member)!) };
}

/**
 * Sends `signals` signals, one after the other, and measures the time from `send` to the other
 * member's message handler. Resolves with the milliseconds of all signals.
 */
export async function relayTimes(url: string, room: string, signals: number, bytes: number): Promise<number[]> {
  const { generation, ranks } = await startRun(url, room, 2);
  const [a, b] = ranks as [JoinedMember, JoinedMember];
  const signal: PeerSignal = { type: 'offer', sdp: 'x'.repeat(bytes) };
  const times: number[] = [];
  for (let attempt = 0; attempt < signals; attempt++) {
    const arrived = b.member.next('signal');
    const sentAt = performance.now();
    a.member.send({ type: 'signal', generation, to: b.id, attempt, signal });
    await arrived;
    times.push(performance.now() - sentAt);
  }
  for (const { member } of ranks) member.leave();
  return times;
}
