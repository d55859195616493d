/**
 * The connection to the signaling server. It checks messages both ways, sends heartbeats, and has a
 * deadline for opening.
 */
import { parseControl, ServerMessage, SIGNALING_PATH, type ClientMessage } from '../../protocol/control.ts';
import type { Clock } from '../../util/clock.ts';
import { within } from '../../util/deadline.ts';
import { deferred } from '../../util/deferred.ts';
import { messageOf, SignalingError } from '../../util/errors.ts';

/** Milliseconds for a server to answer: DNS, TCP and TLS over a slow line. */
const CONNECT_TIMEOUT_MS = 10_000;

/** Unanswered heartbeats after which the connection is dead. A Wi-Fi handover takes less. */
const MAX_UNANSWERED = 4;

interface SignalingHandlers {
  onmessage: (message: ServerMessage) => void;
  /** Called once when the connection is lost, unless this end has closed it. */
  onclose: (error: SignalingError) => void;
}

/** The part of a WebSocket that a client uses. */
export type SignalingSocket = Pick<WebSocket, 'OPEN' | 'readyState' | 'addEventListener' | 'send' | 'close'>;

/** Opens a WebSocket to `url`. */
export type OpenSocket = (url: URL) => SignalingSocket;

export class SignalingClient {
  readonly #socket: SignalingSocket;
  readonly #clock: Clock;
  readonly #onclose: (error: SignalingError) => void;
  readonly #closed = deferred();
  #cancelHeartbeat: () => void = () => {};
  /** Heartbeats since the last message from the server. */
  #unanswered = 0;
  #isOver = false;

  private constructor(socket: SignalingSocket, clock: Clock, { onmessage, onclose }: SignalingHandlers) {
    this.#socket = socket;
    this.#clock = clock;
    this.#onclose = onclose;
    socket.addEventListener('close', () => {
      this.#closed.resolve();
      this.#lose('The connection to the signaling server is gone.');
    });
    socket.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
      // While a socket closes, messages may still arrive.
      if (this.#isOver) return;
      this.#unanswered = 0;
      let message: ServerMessage;
      try {
        message = parseControl(ServerMessage, String(data));
      } catch (error) {
        // A server of another version: its messages cannot be trusted from now on.
        return this.#lose(`The page and its server have different versions: reload the page. (${messageOf(error)})`);
      }
      onmessage(message);
    });
  }

  /**
   * Connects to the server that serves the page at `server` (`https://host:port`).
   *
   * @throws (rejects) SignalingError if no server answers.
   */
  static async connect(
    server: string,
    { clock, openSocket }: { clock: Clock; openSocket: OpenSocket },
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
    return new SignalingClient(socket, clock, handlers);
  }

  /**
   * Resolves when the socket is closed: the server has received everything, or is gone. Browsers
   * wait a few seconds.
   */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  get isOpen(): boolean {
    return !this.#isOver && this.#socket.readyState === this.#socket.OPEN;
  }

  /** Sends, unless the connection is lost, which `onclose` reports. */
  send(message: ClientMessage): void {
    if (this.isOpen) this.#socket.send(JSON.stringify(message));
  }

  /**
   * Sends heartbeats, and closes the connection if the server no longer answers. It counts
   * heartbeats, not milliseconds: a worker that computed for a long time has received nothing,
   * without a fault of the server.
   */
  startHeartbeat(intervalMs: number): void {
    const beat = (): void => {
      if (this.#unanswered >= MAX_UNANSWERED) return this.#lose('The signaling server no longer answers.');
      this.#unanswered += 1;
      this.send({ type: 'heartbeat' });
      this.#cancelHeartbeat = this.#clock.after(intervalMs, beat);
    };
    beat();
  }

  close(): void {
    this.#isOver = true;
    this.#cancelHeartbeat();
    this.#socket.close();
  }

  /**
   * Reports the loss at once: the socket's own `close` event may take long, as a dead connection
   * cannot shake hands.
   */
  #lose(reason: string): void {
    if (this.#isOver) return;
    this.close();
    this.#onclose(new SignalingError(reason));
  }
}
