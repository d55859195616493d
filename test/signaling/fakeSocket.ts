/** The server's end of a WebSocket without a network. Sent messages are passed to `onsend`. */
import { EventEmitter } from 'node:events';
import { WebSocket } from 'ws';

export class FakeSocket extends EventEmitter {
  readyState: number = WebSocket.OPEN;
  /** Bytes that the other end has not read. */
  bufferedAmount = 0;
  /** The code with which the socket was closed, and the reason. */
  closedWith: number | null = null;
  closedWhy: string | undefined;
  isPaused = false;
  pings = 0;
  /**
   * Whether the other end reads messages at once. Otherwise it reads them when {@link read} is
   * called.
   */
  isReading = true;
  readonly #onsend: (data: string) => void;
  readonly #unread: { text: string; taken: () => void }[] = [];

  constructor(onsend: (data: string) => void) {
    super();
    this.#onsend = onsend;
  }

  /** Returns the socket with the type that connections expect. */
  get socket(): WebSocket {
    return this as unknown as WebSocket;
  }

  send(text: string, taken = (): void => {}): void {
    this.bufferedAmount += text.length;
    this.#unread.push({ text, taken });
    if (this.isReading) this.read();
  }

  /** The other end reads pending messages: all, or the first `count`. */
  read(count = this.#unread.length): void {
    for (const { text, taken } of this.#unread.splice(0, count)) {
      this.bufferedAmount -= text.length;
      this.#onsend(text);
      taken();
    }
  }

  receive(data: string | Buffer): void {
    this.emit('message', Buffer.from(data as string), typeof data !== 'string');
  }

  /** Only sets a flag: the test decides when messages arrive. */
  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }

  ping(): void {
    this.pings++;
  }

  close(code: number, why?: string): void {
    if (this.readyState !== WebSocket.OPEN) return;
    this.readyState = WebSocket.CLOSED;
    this.closedWith = code;
    this.closedWhy = why;
    this.emit('close', code);
  }

  /** Closes the socket, if it is open, and drops all pending messages. */
  terminate(): void {
    this.close(1006);
    for (const { taken } of this.#unread.splice(0)) taken();
    this.bufferedAmount = 0;
  }
}
