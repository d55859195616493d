/** Servers for tests, and members that connect to them with real WebSockets. */
import { afterEach } from 'vitest';
import { WebSocket } from 'ws';
import {
  type ClientMessage,
  parseControlMessage,
  PROTOCOL_VERSION,
  type ServerMessage,
  SIGNALING_PATH,
} from '../../src/protocol/control.ts';
import { DeltaDecoder } from '../../src/protocol/deltaDecoder.ts';
import { SentMessage } from '../../src/protocol/deltas.ts';
import type { ReportedDevice } from '../../src/protocol/room.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { startSignaling, type SignalingOptions, type SignalingServer } from '../../signaling/index.ts';

export const CPU: ReportedDevice = { backend: 'cpu', adapter: 'test' };

type Of<Type extends ServerMessage['type']> = Extract<ServerMessage, { type: Type }>;

export class TestMember {
  readonly socket: WebSocket;
  readonly closed: Promise<number>;
  readonly #inbox: ServerMessage[] = [];
  #wake: () => void = () => {};

  constructor(
    server: Pick<SignalingServer, 'url'>,
    options: { origin?: string; path?: string; rejectUnauthorized?: boolean } = {},
  ) {
    const { path = SIGNALING_PATH, ...rest } = options;
    this.socket = new WebSocket(server.url.replace(/^http/, 'ws') + path, rest);
    const decoder = new DeltaDecoder();
    this.socket.on('message', (data: Buffer) => {
      // Every message of the server must fit its schema.
      this.#inbox.push(decoder.decode(parseControlMessage(SentMessage, data.toString())));
      this.#wake();
    });
    this.closed = new Promise((resolve) => {
      this.socket.on('close', (code) => resolve(code));
      this.socket.on('error', () => {});
    });
  }

  async opened(): Promise<this> {
    if (this.socket.readyState !== WebSocket.OPEN) {
      await new Promise((resolve, reject) => {
        this.socket.once('open', resolve);
        this.socket.once('error', reject);
      });
    }
    return this;
  }

  async send(message: ClientMessage): Promise<void> {
    await this.raw(JSON.stringify(message));
  }

  async raw(data: string | Buffer): Promise<void> {
    await this.opened();
    this.socket.send(data);
  }

  async join(room: string, name = 'Ada', request: { browser?: string; rank?: number } = {}): Promise<void> {
    await this.send({ type: 'join', version: PROTOCOL_VERSION, room, name, ...request });
  }

  /**
   * Resolves with the next message that has this type and fits; messages before it are dropped.
   * Rejects if the socket closes first.
   */
  async next<Type extends ServerMessage['type']>(
    type: Type,
    fits: (message: Of<Type>) => boolean = () => true,
  ): Promise<Of<Type>> {
    for (;;) {
      const message = await this.#take(`a message "${type}" arrived`);
      if (message.type === type && fits(message as Of<Type>)) return message as Of<Type>;
    }
  }

  /** Resolves with the server's answer to a first message: `admitted`, or the code of a refusal. */
  async answer(): Promise<string> {
    for (;;) {
      const message = await this.#take('an answer arrived');
      if (message.type === 'admitted') return message.type;
      if (message.type === 'refused') return message.code;
    }
  }

  async #take(what: string): Promise<ServerMessage> {
    for (;;) {
      const message = this.#inbox.shift();
      if (message !== undefined) return message;
      if (this.socket.readyState === WebSocket.CLOSED) throw new Error(`The connection closed before ${what}.`);
      await Promise.race([new Promise<void>((resolve) => (this.#wake = resolve)), this.closed]);
    }
  }
}

/** Joins and reports `ready`; resolves with the member's id and token. */
export async function enter(member: TestMember, room: string, name: string): Promise<{ id: string; token: string }> {
  await member.join(room, name);
  const { member: id, token } = await member.next('admitted');
  await member.send({ type: 'ready', device: CPU, stateOfRun: null });
  return { id, token };
}

/** The upgrade request of a WebSocket. */
export const UPGRADE =
  'GET /signal HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
  'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n';

/**
 * Returns functions that create servers and members for the tests of a file. Both are closed after
 * each test.
 */
export function testServers() {
  const open: (() => Promise<void> | void)[] = [];
  afterEach(async () => {
    while (open.length > 0) await open.pop()!();
  });

  /** Calls `close` after the test. Functions that were passed later are called first. */
  function onEnd(close: () => Promise<void> | void): void {
    open.push(close);
  }

  async function start(options: SignalingOptions = {}): Promise<SignalingServer> {
    const server = await startSignaling({ logLevel: 'silent', ...options });
    onEnd(() => server.close());
    return server;
  }

  function member(...args: ConstructorParameters<typeof TestMember>): TestMember {
    const one = new TestMember(...args);
    onEnd(() => one.socket.terminate());
    return one;
  }

  /** Creates a room with two members whose run has begun. */
  async function pair(options: SignalingOptions = {}) {
    const server = await start(options);
    const room = server.createRoom({ job: DEFAULT_JOB, startAt: 2 });
    const [ada, bo] = [member(server), member(server)];
    const { id: adaId, token: adaToken } = await enter(ada, room, 'Ada');
    const { id: boId, token: boToken } = await enter(bo, room, 'Bo');
    const { generation } = await ada.next('prepare');
    await bo.next('prepare');
    return { server, room, ada, bo, adaId, adaToken, boId, boToken, generation };
  }

  /** Opens a room from a tab, which then leaves it; returns its code. */
  async function openAndLeave(server: SignalingServer): Promise<string> {
    const ada = member(server);
    await ada.send(create());
    const { room } = await ada.next('admitted');
    await ada.send({ type: 'leave' });
    await ada.closed;
    return room;
  }

  return { onEnd, start, member, pair, openAndLeave };
}

export function create(name = 'Ada', startAt: number | null = null): ClientMessage {
  return { type: 'create', version: PROTOCOL_VERSION, name, job: DEFAULT_JOB, startAt, nodes: null };
}

/** The reconnect state of a member that knows no run. */
export const NO_RUN = {
  settings: { job: DEFAULT_JOB, startAt: null, nodes: null, isLocked: false, isPausedByHost: false },
  run: 0,
  isRunOn: false,
  generation: 0,
  active: null,
};

export function returning(room: string, id: string, token: string): ClientMessage {
  return {
    type: 'reconnect',
    version: PROTOCOL_VERSION,
    name: 'back',
    room,
    member: id,
    token,
    reconnectState: NO_RUN,
  };
}

/** Resolves with the numbers of rooms and connections that `/healthz` reports. */
async function health({ url }: SignalingServer): Promise<{ rooms: number; connections: number }> {
  return (await (await fetch(`${url}/healthz`)).json()) as { rooms: number; connections: number };
}

export async function rooms(server: SignalingServer): Promise<number> {
  return (await health(server)).rooms;
}

/** Resolves with the number of sockets that are open as far as the server knows. */
export async function connections(server: SignalingServer): Promise<number> {
  return (await health(server)).connections;
}
