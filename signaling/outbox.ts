/**
 * What goes out over one tab's WebSocket, in order. A `room` message says all that the one before
 * it said, and every change sends one to every member: n who join at once would be told n * n
 * times. So it waits until the event loop has handled what has arrived and until the reader has
 * taken what was sent before, and a newer one takes its place. Whatever else is sent meanwhile goes
 * behind it, as if it had not waited.
 */
import { WebSocket } from 'ws';
import type { ServerMessage } from '../src/protocol/control.ts';
import type { Metrics } from './monitoring/metrics.ts';

/** What the hub tells many members is one object: written as JSON once. */
const texts = new WeakMap<ServerMessage, string>();

export class Outbox {
  readonly #socket: WebSocket;
  readonly #metrics: Metrics;
  #room: ServerMessage | null = null;
  #isScheduled = false;

  constructor(socket: WebSocket, metrics: Metrics) {
    this.#socket = socket;
    this.#metrics = metrics;
  }

  send(message: ServerMessage): void {
    if (message.type === 'room') {
      this.#room = message;
      return this.#schedule();
    }
    // An answer to a heartbeat belongs to nothing that is said before or after it.
    if (message.type !== 'heartbeat') this.#flush();
    this.#write(message);
  }

  readonly #schedule = (): void => {
    if (this.#isScheduled || this.#room === null || this.#socket.bufferedAmount > 0) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      // Where something was sent since then and is unsent, its callback comes.
      if (this.#socket.bufferedAmount === 0) this.#flush();
    });
  };

  #flush(): void {
    const room = this.#room;
    this.#room = null;
    if (room !== null) this.#write(room);
  }

  #write(message: ServerMessage): void {
    // `close` tells of the end.
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    let text = texts.get(message);
    if (text === undefined) texts.set(message, (text = JSON.stringify(message)));
    if (message.type === 'signal') this.#metrics.relayed(Buffer.byteLength(text));
    // Called when the system has taken it, or the socket is gone.
    this.#socket.send(text, this.#schedule);
  }
}
