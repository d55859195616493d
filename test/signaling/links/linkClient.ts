/** Ends of links through the server, with real WebSockets. */
import { WebSocket } from 'ws';
import { parseControlMessage, PROTOCOL_VERSION } from '../../../src/protocol/control.ts';
import { ServerLinkAnswer, SERVER_LINK_PATH, type ServerLinkOpening } from '../../../src/protocol/serverLink.ts';
import type { SignalingServer } from '../../../signaling/index.ts';

export const CHANNEL = 'c'.repeat(32);

interface Closed {
  code: number;
  reason: string;
}

export class LinkClient {
  readonly socket: WebSocket;
  readonly closed: Promise<Closed>;
  /** Received frames, as text. */
  readonly frames: string[] = [];
  /** Received answers of the server: `paired`, or the message of a refusal. */
  readonly answers: string[] = [];
  #wake: () => void = () => {};

  constructor({ url }: Pick<SignalingServer, 'url'>) {
    this.socket = new WebSocket(url.replace(/^http/, 'ws') + SERVER_LINK_PATH);
    this.socket.on('message', (data: Buffer, isBinary) => {
      if (isBinary) this.frames.push(data.toString());
      else {
        const answer = parseControlMessage(ServerLinkAnswer, data.toString());
        this.answers.push(answer.type === 'paired' ? answer.type : answer.message);
      }
      this.#wake();
    });
    this.socket.on('error', () => {});
    this.closed = new Promise((resolve) => {
      this.socket.on('close', (code, reason) => resolve({ code, reason: reason.toString() }));
    });
  }

  /** Resolves when the server's end exists. */
  async opened(): Promise<this> {
    if (this.socket.readyState !== WebSocket.OPEN) {
      await new Promise((resolve, reject) => {
        this.socket.once('open', resolve);
        this.socket.once('error', reject);
      });
    }
    return this;
  }

  async send(data: string | Buffer): Promise<void> {
    await this.opened();
    this.socket.send(data);
  }

  async open(opening: Omit<ServerLinkOpening, 'version' | 'channel'> & Partial<ServerLinkOpening>): Promise<void> {
    await this.send(JSON.stringify({ version: PROTOCOL_VERSION, channel: CHANNEL, ...opening }));
  }

  /** Resolves with the first answer of the server. */
  async answer(): Promise<string> {
    return this.#until(() => this.answers[0], 'an answer');
  }

  /** Resolves with the next frame. */
  async frame(): Promise<string> {
    return this.#until(() => this.frames.shift(), 'a frame');
  }

  async #until<Value>(find: () => Value | undefined, what: string): Promise<Value> {
    for (;;) {
      const found = find();
      if (found !== undefined) return found;
      if (this.socket.readyState === WebSocket.CLOSED) throw new Error(`The link closed before ${what} arrived.`);
      await Promise.race([new Promise<void>((resolve) => (this.#wake = resolve)), this.closed]);
    }
  }
}
