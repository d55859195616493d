/**
 * The connection to the signaling server. It validates received messages, has a deadline for
 * connecting, and sends heartbeats, unless the socket's own thread sends them.
 */
import { parseControlMessage, SIGNALING_PATH, type ClientMessage, type ServerMessage } from '../../protocol/control.ts';
import { DeltaDecoder } from '../../protocol/deltaDecoder.ts';
import { SentMessage } from '../../protocol/deltas.ts';
import { type ThreadActivity, pulseOfActiveRank } from '../../util/activity.ts';
import { withinDeadline } from '../../util/deadline.ts';
import { createDeferred } from '../../util/deferred.ts';
import { errorMessageOf, SignalingError } from '../../util/errors.ts';
import { socketUrl } from '../../util/socketUrl.ts';
import { Heartbeats, type HeartbeatTimeSources } from './heartbeats.ts';

/**
 * Deadline in milliseconds for a connection to the server. On a busy line, the deadline is longer.
 * DNS, TCP and TLS take long over a slow line.
 */
const CONNECT_TIMEOUT_MS = 10_000;

interface SignalingHandlers {
  onmessage: (message: ServerMessage) => void;
  /** Called once when the connection is lost, unless this end has closed it. */
  onclose: (error: SignalingError) => void;
}

/** The properties and methods of WebSocket that the client uses. */
export interface SignalingSocket extends Pick<
  WebSocket,
  'OPEN' | 'readyState' | 'addEventListener' | 'send' | 'close'
> {
  /** Sends the socket's heartbeats from another thread. If it is missing, the client sends them. */
  readonly heartbeats?: Pick<Heartbeats, 'start' | 'check'>;
}

/** Opens a WebSocket to `url`. */
export type OpenSocket = (url: URL) => SignalingSocket | Promise<SignalingSocket>;

interface ClientOptions extends HeartbeatTimeSources {
  /** This thread's activity, which its heartbeats report. */
  activity: ThreadActivity;
}

export class SignalingClient {
  readonly #socket: SignalingSocket;
  readonly #onclose: (error: SignalingError) => void;
  readonly #closed = createDeferred();
  readonly #decoder = new DeltaDecoder();
  readonly #heartbeats: Heartbeats;
  #isOver = false;

  private constructor(
    socket: SignalingSocket,
    { clock, today, activity }: ClientOptions,
    { onmessage, onclose }: SignalingHandlers,
  ) {
    this.#socket = socket;
    this.#onclose = onclose;
    this.#heartbeats = new Heartbeats({
      clock,
      today,
      send: (message) => this.send(message),
      pulse: () => pulseOfActiveRank(activity.report),
      bytes: () => activity.report.bytes,
      onlost: () => this.#lose('The signaling server no longer answers.'),
    });
    socket.addEventListener('close', () => {
      this.#closed.resolve();
      this.#lose('The connection to the signaling server is closed.');
    });
    socket.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
      // Messages may still arrive while a socket closes.
      if (this.#isOver) return;
      this.#heartbeats.answered();
      let sent: SentMessage;
      try {
        sent = parseControlMessage(SentMessage, String(data));
      } catch (error) {
        // The server has a different version than this page, so all further messages could be
        // wrong.
        return this.#lose(
          `The page and its server have different versions. Reload the page. (${errorMessageOf(error)})`,
        );
      }
      let message: ServerMessage;
      try {
        message = this.#decoder.decode(sent);
      } catch (error) {
        // Without the missed change, this tab would act on a wrong list of members. Over the next
        // connection, the server sends the whole room.
        return this.#lose(`This tab has missed a change of the room. (${errorMessageOf(error)})`);
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
    { openSocket, ...options }: ClientOptions & { openSocket: OpenSocket },
    handlers: SignalingHandlers,
  ): Promise<SignalingClient> {
    const url = socketUrl(SIGNALING_PATH, server);
    const { clock, activity } = options;
    const opening = openSocket(url);
    const socket = opening instanceof Promise ? await opening : opening;
    const unreachable = new SignalingError(
      `The signaling server at ${url.host} does not answer. Check that it runs and that this machine can reach it.`,
    );
    const opened = createDeferred();
    socket.addEventListener('open', () => opened.resolve());
    socket.addEventListener('close', () => opened.reject(unreachable));
    try {
      await withinDeadline(clock, activity.answerMs(CONNECT_TIMEOUT_MS), opened.promise, () => unreachable);
    } catch (error) {
      socket.close();
      throw error;
    }
    return new SignalingClient(socket, options, handlers);
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

  /** Sends heartbeats, and closes the connection if the server no longer answers. */
  startHeartbeat(intervalMs: number): void {
    (this.#socket.heartbeats ?? this.#heartbeats).start(intervalMs);
  }

  /** Finds out soon whether the server still answers. */
  check(): void {
    (this.#socket.heartbeats ?? this.#heartbeats).check();
  }

  close(): void {
    this.#isOver = true;
    this.#heartbeats.stop();
    this.#socket.close();
  }

  /**
   * Reports the lost connection immediately. The socket's own `close` event may come late, because
   * a closing handshake over a dead connection has to time out.
   */
  #lose(reason: string): void {
    if (this.#isOver) return;
    this.close();
    this.#onclose(new SignalingError(reason));
  }
}
