/**
 * The messages to one tab's WebSocket, in order. A `room` message makes all earlier `room` messages
 * obsolete. Every change of a room sends one `room` message to every member, so if n members joined
 * at the same time, n * n `room` messages would be sent. Therefore a `room` message waits until the
 * event loop has handled all received messages and the operating system has taken everything that
 * was sent. A newer `room` message replaces the waiting one. Before any other message, except an
 * answer to a heartbeat, the waiting `room` message is sent, so the order is kept.
 */
import { WebSocket } from 'ws';
import type { ServerMessage } from '../src/protocol/control.ts';
import { DeltaEncoder } from './deltaEncoder.ts';
import type { Metrics } from './monitoring/metrics.ts';

export class Outbox {
  readonly #socket: WebSocket;
  readonly #metrics: Metrics;
  readonly #encoder = new DeltaEncoder();
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
    // The room message that waits is sent before any other message, to keep the order. Only
    // heartbeat answers may overtake it.
    if (message.type !== 'heartbeat') this.#flush();
    this.#write(message);
  }

  readonly #schedule = (): void => {
    if (this.#isScheduled || this.#room === null || this.#socket.bufferedAmount > 0) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      // If unsent data are left now, the callback of their `send` will call this function again.
      if (this.#socket.bufferedAmount === 0) this.#flush();
    });
  };

  #flush(): void {
    const room = this.#room;
    this.#room = null;
    if (room !== null) this.#write(room);
  }

  #write(message: ServerMessage): void {
    // The connection is closed; the `close` event reports it.
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    const text = this.#encoder.encode(message);
    if (message.type === 'signal') this.#metrics.relayed(Buffer.byteLength(text));
    // `send` calls the callback when the operating system has taken the text, or the socket is
    // closed.
    this.#socket.send(text, this.#schedule);
  }
}
