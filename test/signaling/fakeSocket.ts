/**
 * The server's end of a WebSocket without a network: what a connection says is handed to `onsend`.
 */
import { EventEmitter } from 'node:events';
import { WebSocket } from 'ws';

export class FakeSocket extends EventEmitter {
  readyState: number = WebSocket.OPEN;
  /** Bytes that the other side has not taken. */
  bufferedAmount = 0;
  /** The code it was closed with. */
  closedWith: number | null = null;
  /** Whether the other side takes what it is sent at once; else when {@link read} says so. */
  isReading = true;
  readonly #onsend: (text: string) => void;
  readonly #unread: (() => void)[] = [];

  constructor(onsend: (text: string) => void) {
    super();
    this.#onsend = onsend;
  }

  /** As the connection takes it. */
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

  /** The other side takes what is there. */
  read(): void {
    for (const take of this.#unread.splice(0)) take();
  }

  receive(data: string | Buffer): void {
    this.emit('message', Buffer.from(data as string), typeof data !== 'string');
  }

  /** What is received comes from the test, when it says. */
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
