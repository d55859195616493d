/** A member that speaks the protocol over a real WebSocket. */
import { WebSocket } from 'ws';
import {
  type ClientMessage,
  parseControl,
  PROTOCOL_VERSION,
  ServerMessage,
  SIGNALING_PATH,
} from '../../src/protocol/control.ts';
import type { Device } from '../../src/protocol/room.ts';
import type { SignalingServer } from '../../signaling/index.ts';

export const CPU: Device = { backend: 'cpu', adapter: 'test' };

/** A distributive Omit, so that every message keeps its own fields. */
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
    this.socket.on('message', (data: Buffer) => {
      // Whatever the server says must fit its own schema.
      this.#inbox.push(parseControl(ServerMessage, data.toString()));
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

  async join(room: string, name = 'Ada', asked: { browser?: string; rank?: number } = {}): Promise<void> {
    await this.send({ type: 'join', version: PROTOCOL_VERSION, room, name, ...asked });
  }

  /**
   * The next message of that type; what comes before it is dropped. Rejects when the socket closes
   * first.
   */
  async next<Type extends ServerMessage['type']>(
    type: Type,
    fits: (message: Of<Type>) => boolean = () => true,
  ): Promise<Of<Type>> {
    for (;;) {
      const message = await this.#take(`a message "${type}" came`);
      if (message.type === type && fits(message as Of<Type>)) return message as Of<Type>;
    }
  }

  /** The server's answer to a first message: `admitted`, or a refusal's code. */
  async answer(): Promise<string> {
    for (;;) {
      const message = await this.#take('an answer came');
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

/** Joins and gets ready; resolves with the id and the token that proves it. */
export async function enter(member: TestMember, room: string, name: string): Promise<{ id: string; token: string }> {
  await member.join(room, name);
  const { member: id, token } = await member.next('admitted');
  await member.send({ type: 'ready', device: CPU, stateOfRun: null });
  return { id, token };
}
