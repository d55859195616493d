/**
 * The messages to one tab's WebSocket, in order. A `room` message replaces all before it, and
 * every change sends one to every member: n members that join at once would receive n * n of them.
 * So it waits until the event loop has handled all received messages and the reader has read all
 * sent ones; a newer one replaces it. Another message sends the waiting one first, so their order
 * is kept.
 */
import { WebSocket } from 'ws';
import type { ServerMessage } from '../src/protocol/control.ts';
import type { Metrics } from './monitoring/metrics.ts';

/** JSON of messages: a message to many members is one object and is serialized once. */
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
    // The order of heartbeat answers does not matter.
    if (message.type !== 'heartbeat') this.#flush();
    this.#write(message);
  }

  readonly #schedule = (): void => {
    if (this.#isScheduled || this.#room === null || this.#socket.bufferedAmount > 0) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      // If something else was sent and is unsent, its callback calls this again.
      if (this.#socket.bufferedAmount === 0) this.#flush();
    });
  };

  #flush(): void {
    const room = this.#room;
    this.#room = null;
    if (room !== null) this.#write(room);
  }

  #write(message: ServerMessage): void {
    // The `close` event reports the end.
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    let text = texts.get(message);
    if (text === undefined) texts.set(message, (text = JSON.stringify(message)));
    if (message.type === 'signal') this.#metrics.relayed(Buffer.byteLength(text));
    // The callback fires when the system has taken it, or the socket is closed.
    this.#socket.send(text, this.#schedule);
  }
}
