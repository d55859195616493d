/** The server's end of a WebSocket without a network. Sent messages are passed to `onsend`. */
import { EventEmitter } from 'node:events';
import { WebSocket } from 'ws';

export class FakeSocket extends EventEmitter {
  readyState: number = WebSocket.OPEN;
  /** Bytes that the other end has not read. */
  bufferedAmount = 0;
  /** The code with which the socket was closed. */
  closedWith: number | null = null;
  /**
   * Whether the other end reads messages at once. Otherwise it reads them when {@link read} is
   * called.
   */
  isReading = true;
  readonly #onsend: (text: string) => void;
  readonly #unread: (() => void)[] = [];

  constructor(onsend: (text: string) => void) {
    super();
    this.#onsend = onsend;
  }

  /** Returns the socket with the type that connections expect. */
  get socket(): WebSocket {
    return this as unknown as WebSocket;
  }

  send(text: string, taken: () => void): void {
    this.bufferedAmount += text.length;
    this.#unread.push(() => {
      this.bufferedAmount -= text.length;
      this.#onsend(text);
      taken();
    });
    if (this.isReading) this.read();
  }

  /** The other end reads all pending messages. */
  read(): void {
    for (const take of this.#unread.splice(0)) take();
  }

  receive(data: string | Buffer): void {
    this.emit('message', Buffer.from(data as string), typeof data !== 'string');
  }

  /** Does nothing: the test decides when messages arrive. */
  pause(): void {}

  resume(): void {}

  close(code: number): void {
    if (this.readyState !== WebSocket.OPEN) return;
    this.readyState = WebSocket.CLOSED;
    this.closedWith = code;
    this.emit('close', code);
  }

  terminate(): void {
    this.close(1006);
  }
}
