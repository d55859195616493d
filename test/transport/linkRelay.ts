/** Servers for links, without a room: they join two sockets of one channel and forward messages. */
import type { AddressInfo } from 'node:net';
import * as v from 'valibot';
import { WebSocketServer, WebSocket } from 'ws';
import { ServerLinkOpening, type ServerLinkAnswer } from '../../src/protocol/serverLink.ts';
import type { LinkSocket } from '../../src/transport/serverLinkChannel.ts';

const PAIRED = JSON.stringify({ type: 'paired' } satisfies ServerLinkAnswer);

/** A tab's WebSocket to a {@link LinkRelay}. */
export class RelaySocket extends EventTarget {
  binaryType: BinaryType = 'blob';
  bufferedAmount = 0;
  /** The other end, once the two are paired. */
  other: RelaySocket | null = null;
  isClosed = false;
  readonly #onsend: (data: string | ArrayBuffer) => void;

  constructor(onsend: (data: string | ArrayBuffer) => void) {
    super();
    this.#onsend = onsend;
  }

  send(data: string | ArrayBuffer): void {
    setImmediate(() => this.#onsend(data));
  }

  close(): void {
    setImmediate(() => {
      this.cut(1000);
      this.other?.cut(1000);
    });
  }

  receive(data: string | ArrayBuffer): void {
    if (!this.isClosed) this.dispatchEvent(new MessageEvent('message', { data }));
  }

  answer(answer: ServerLinkAnswer): void {
    this.receive(JSON.stringify(answer));
  }

  /** The server or the network closes the connection. */
  cut(code: number, reason = ''): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.dispatchEvent(Object.assign(new Event('close'), { code, reason }));
  }
}

/** A server in this thread, whose behaviour a test changes. */
export class LinkRelay {
  readonly urls: string[] = [];
  readonly openings: ServerLinkOpening[] = [];
  readonly sockets: RelaySocket[] = [];
  /** Number of messages that {@link forward} has handled. */
  forwarded = 0;
  readonly #waiting = new Map<string, RelaySocket>();

  /** Handles a binary message of the socket `from`. */
  forward = (message: ArrayBuffer, from: RelaySocket): void => from.other?.receive(message);
  /** Handles the first message of a socket. */
  open = (socket: RelaySocket, { channel }: ServerLinkOpening): void => {
    const other = this.#waiting.get(channel);
    this.#waiting.set(channel, socket);
    if (other === undefined) return;
    socket.other = other;
    other.other = socket;
    for (const one of [other, socket]) one.answer({ type: 'paired' });
  };

  readonly openSocket = (url: URL): LinkSocket => {
    this.urls.push(url.href);
    const socket: RelaySocket = new RelaySocket((data) => this.#receive(data, socket));
    this.sockets.push(socket);
    setImmediate(() => {
      if (!socket.isClosed) socket.dispatchEvent(new Event('open'));
    });
    return socket as LinkSocket;
  };

  #receive(data: string | ArrayBuffer, socket: RelaySocket): void {
    if (typeof data !== 'string') {
      this.forwarded += 1;
      return this.forward(data, socket);
    }
    const opening = v.parse(ServerLinkOpening, JSON.parse(data));
    this.openings.push(opening);
    this.open(socket, opening);
  }
}

/** Starts a server with real WebSockets. */
export async function startRelay(): Promise<{ openSocket: () => LinkSocket; close: () => void }> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await new Promise((resolve) => server.once('listening', resolve));
  const waiting = new Map<string, WebSocket>();
  server.on('connection', (socket) =>
    socket.once('message', (text: Buffer) => {
      const { channel } = v.parse(ServerLinkOpening, JSON.parse(String(text)));
      const other = waiting.get(channel);
      waiting.set(channel, socket);
      if (other === undefined) return;
      join(other, socket);
      join(socket, other);
    }),
  );
  const { port } = server.address() as AddressInfo;
  return {
    openSocket: () => new WebSocket(`ws://127.0.0.1:${port}`) as unknown as LinkSocket,
    close: () => server.close(),
  };
}

function join(one: WebSocket, other: WebSocket): void {
  one.on('message', (message: Buffer) => other.send(message));
  one.on('close', () => other.close(1000));
  one.send(PAIRED);
}
