/**
 * The connection to the signaling server: messages checked both ways, heartbeats sent, one deadline
 * for opening.
 */
import { parseControl, ServerMessage, SIGNALING_PATH, type ClientMessage } from '../../protocol/control.ts';
import type { Clock } from '../../util/clock.ts';
import { within } from '../../util/deadline.ts';
import { deferred } from '../../util/deferred.ts';
import { messageOf, SignalingError } from '../../util/errors.ts';

/** How long a server may take to answer: DNS, TCP and TLS over a slow line. */
const CONNECT_TIMEOUT_MS = 10_000;

/** Heartbeats without an answer after which the connection is dead: a Wi-Fi handover takes less. */
const MAX_UNANSWERED = 4;

interface SignalingHandlers {
  onmessage: (message: ServerMessage) => void;
  /** Called once when the connection is gone, unless this end has closed it. */
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
  /** Heartbeats since anything was last heard. */
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
      // While a socket closes, messages may still come.
      if (this.#isOver) return;
      this.#unanswered = 0;
      let message: ServerMessage;
      try {
        message = parseControl(ServerMessage, String(data));
      } catch (error) {
        // A server of another version: nothing it says can be trusted from here on.
        return this.#lose(`The page and its server do not fit together: reload the page. (${messageOf(error)})`);
      }
      onmessage(message);
    });
  }

  /**
   * Connects to the server that serves the page at `server` (`https://host:port`).
   *
   * @throws (rejects) SignalingError where nothing answers.
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
   * Resolves when the socket is closed: the server has had all that was sent, or it is gone.
   * Browsers wait a few seconds.
   */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  get isOpen(): boolean {
    return !this.#isOver && this.#socket.readyState === this.#socket.OPEN;
  }

  /** Sends, unless the connection is gone: `onclose` has told. */
  send(message: ClientMessage): void {
    if (this.isOpen) this.#socket.send(JSON.stringify(message));
  }

  /**
   * Keeps telling the server that this member is alive, and hangs up on a server that no longer
   * answers. Beats are counted, not milliseconds: a worker that computed for long has heard nothing
   * meanwhile, and that is not the server's fault.
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
   * At once, where the socket's own `close` may take long: a dead connection cannot shake hands.
   */
  #lose(reason: string): void {
    if (this.#isOver) return;
    this.close();
    this.#onclose(new SignalingError(reason));
  }
}
