/** The connection to the signaling server: messages checked both ways, heartbeats sent, one deadline for opening. */
import { parseControl, ServerMessage, SIGNALING_PATH, type ClientMessage } from '../protocol/control.ts';
import type { Clock } from '../util/clock.ts';
import { deferred } from '../util/deferred.ts';
import { messageOf, SignalingError } from '../util/errors.ts';

/** How long a server may take to answer: DNS, TCP and TLS over a slow line. */
const CONNECT_TIMEOUT_MS = 10_000;

export interface SignalingHandlers {
  onmessage: (message: ServerMessage) => void;
  /** Called once when the connection is gone, whoever ended it. */
  onclose: (error: SignalingError) => void;
}

export class SignalingClient {
  readonly #socket: WebSocket;
  readonly #clock: Clock;
  #cancelHeartbeat: () => void = () => {};

  private constructor(socket: WebSocket, clock: Clock) {
    this.#socket = socket;
    this.#clock = clock;
  }

  /**
   * Connects to the server that serves the page at `server` (`https://host:port`).
   *
   * @throws (rejects) SignalingError where nothing answers.
   */
  static async connect(server: string, clock: Clock, handlers: SignalingHandlers): Promise<SignalingClient> {
    const url = new URL(SIGNALING_PATH, server);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    const socket = new WebSocket(url);
    const client = new SignalingClient(socket, clock);
    const opened = deferred();
    let isOpen = false;
    const unreachable = new SignalingError(
      `The signaling server at ${url.host} does not answer. Check that it runs and that this machine can reach it.`,
    );
    const cancel = clock.after(CONNECT_TIMEOUT_MS, () => socket.close());
    socket.addEventListener('open', () => {
      isOpen = true;
      opened.resolve();
    });
    let reason = new SignalingError(`The connection to the signaling server at ${url.host} is gone.`);
    socket.addEventListener('close', () => {
      client.#cancelHeartbeat();
      if (isOpen) handlers.onclose(reason);
      else opened.reject(unreachable);
    });
    socket.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
      let message: ServerMessage;
      try {
        message = parseControl(ServerMessage, String(data));
      } catch (error) {
        // A server of another version: nothing it says can be trusted from here on.
        reason = new SignalingError(
          `The page and its server do not fit together: reload the page. (${messageOf(error)})`,
        );
        socket.close();
        return;
      }
      handlers.onmessage(message);
    });
    try {
      await opened.promise;
      return client;
    } finally {
      cancel();
    }
  }

  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  /** Sends, unless the connection is gone: `onclose` has told. */
  send(message: ClientMessage): void {
    if (this.isOpen) this.#socket.send(JSON.stringify(message));
  }

  /** Keeps telling the server that this member is alive. */
  startHeartbeat(intervalMs: number): void {
    const beat = (): void => {
      this.send({ type: 'heartbeat' });
      this.#cancelHeartbeat = this.#clock.after(intervalMs, beat);
    };
    beat();
  }

  close(): void {
    this.#cancelHeartbeat();
    this.#socket.close();
  }
}
