/**
 * The connection to the signaling server. It validates received messages, sends heartbeats, and has
 * a deadline for connecting.
 */
import { parseControl, SIGNALING_PATH, type ClientMessage, type ServerMessage } from '../../protocol/control.ts';
import { DeltaDecoder } from '../../protocol/deltaDecoder.ts';
import { SentMessage } from '../../protocol/deltas.ts';
import type { Clock } from '../../util/clock.ts';
import { within } from '../../util/deadline.ts';
import { deferred } from '../../util/deferred.ts';
import { messageOf, SignalingError } from '../../util/errors.ts';

/**
 * Milliseconds that a server may take to accept a connection. DNS, TCP and TLS take long over a
 * slow line.
 */
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * After this number of unanswered heartbeats the connection is considered dead. A handover between
 * Wi-Fi access points takes less time.
 */
const MAX_UNANSWERED = 4;
/**
 * After this number of unanswered heartbeats the connection is considered dead if there is a reason
 * to doubt it.
 */
const MAX_UNANSWERED_IN_DOUBT = 2;
const DOUBTED = MAX_UNANSWERED - MAX_UNANSWERED_IN_DOUBT;
/**
 * If a heartbeat is late by this number of milliseconds, the machine may have slept. Meanwhile the
 * server or a router may have dropped the connection.
 */
const LATE_MS = 5_000;

interface SignalingHandlers {
  onmessage: (message: ServerMessage) => void;
  /** Called once when the connection is lost, unless this end has closed it. */
  onclose: (error: SignalingError) => void;
}

/** The properties and methods of WebSocket that the client uses. */
export type SignalingSocket = Pick<WebSocket, 'OPEN' | 'readyState' | 'addEventListener' | 'send' | 'close'>;

/** Opens a WebSocket to `url`. */
export type OpenSocket = (url: URL) => SignalingSocket;

interface Times {
  clock: Clock;
  /** Returns milliseconds since 1970. Some clocks stand still while the machine sleeps. */
  today: () => number;
}

export class SignalingClient {
  readonly #socket: SignalingSocket;
  readonly #clock: Clock;
  readonly #today: () => number;
  readonly #onclose: (error: SignalingError) => void;
  readonly #closed = deferred();
  readonly #decoder = new DeltaDecoder();
  #cancelHeartbeat: () => void = () => {};
  /** Milliseconds between two heartbeats; 0 before the first. */
  #heartbeatMs = 0;
  /** The number of heartbeats since the last message from the server. */
  #unanswered = 0;
  #isOver = false;

  private constructor(socket: SignalingSocket, { clock, today }: Times, { onmessage, onclose }: SignalingHandlers) {
    this.#socket = socket;
    this.#clock = clock;
    this.#today = today;
    this.#onclose = onclose;
    socket.addEventListener('close', () => {
      this.#closed.resolve();
      this.#lose('The connection to the signaling server is closed.');
    });
    socket.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
      // Messages may still arrive while a socket closes.
      if (this.#isOver) return;
      this.#unanswered = 0;
      let sent: SentMessage;
      try {
        sent = parseControl(SentMessage, String(data));
      } catch (error) {
        // The server has another version, so all further messages could be wrong.
        return this.#lose(`The page and its server have different versions. Reload the page. (${messageOf(error)})`);
      }
      let message: ServerMessage;
      try {
        message = this.#decoder.decode(sent);
      } catch (error) {
        // This tab would act on a wrong list of members. The next connection sends the whole room.
        return this.#lose(`This tab has missed a change of the room. (${messageOf(error)})`);
      }
      onmessage(message);
    });
  }

  /**
   * Connects to the signaling server at the URL `server` (`https://host:port`), which also serves
   * the page.
   *
   * @throws (rejects) SignalingError if no server answers.
   */
  static async connect(
    server: string,
    { clock, today, openSocket }: Times & { openSocket: OpenSocket },
    handlers: SignalingHandlers,
  ): Promise<SignalingClient> {
    const url = new URL(SIGNALING_PATH, server);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    const socket = openSocket(url);
    const unreachable = new SignalingError(
      `The signaling server at ${url.host} does not answer. Check that it runs and that this machine can reach it.`,
    );
    const opened = deferred();
    socket.addEventListener('open', () => opened.resolve());
    socket.addEventListener('close', () => opened.reject(unreachable));
    try {
      await within(clock, CONNECT_TIMEOUT_MS, opened.promise, () => unreachable);
    } catch (error) {
      socket.close();
      throw error;
    }
    return new SignalingClient(socket, { clock, today }, handlers);
  }

  /**
   * Resolves when the socket is closed. Then the server has received all messages, or cannot be
   * reached. Browsers wait a few seconds for a server that does not answer.
   */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  get isOpen(): boolean {
    return !this.#isOver && this.#socket.readyState === this.#socket.OPEN;
  }

  /** Sends a message. Does nothing if the connection is lost, because `onclose` reports that. */
  send(message: ClientMessage): void {
    if (this.isOpen) this.#socket.send(JSON.stringify(message));
  }

  /**
   * Sends heartbeats, and closes the connection if the server no longer answers. The limit is a
   * number of heartbeats, not of milliseconds: a worker that was busy for a long time has handled
   * no answers, although the server has sent them.
   */
  startHeartbeat(intervalMs: number): void {
    this.#heartbeatMs = intervalMs;
    this.#beat();
  }

  /** Finds out soon whether the server still answers. */
  check(): void {
    if (this.#heartbeatMs === 0 || this.#unanswered > DOUBTED) return;
    this.#unanswered = DOUBTED;
    this.#beat();
  }

  #beat(): void {
    this.#cancelHeartbeat();
    if (this.#unanswered >= MAX_UNANSWERED) return this.#lose('The signaling server no longer answers.');
    this.#unanswered += 1;
    this.send({ type: 'heartbeat' });
    const due = this.#today() + this.#heartbeatMs;
    this.#cancelHeartbeat = this.#clock.after(this.#heartbeatMs, () => {
      if (this.#today() - due > LATE_MS) this.#unanswered = Math.max(this.#unanswered, DOUBTED);
      this.#beat();
    });
  }

  close(): void {
    this.#isOver = true;
    this.#cancelHeartbeat();
    this.#socket.close();
  }

  /**
   * Reports the loss at once. The socket's own `close` event may come late, because a closing
   * handshake over a dead connection has to time out.
   */
  #lose(reason: string): void {
    if (this.#isOver) return;
    this.close();
    this.#onclose(new SignalingError(reason));
  }
}
