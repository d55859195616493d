/**
 * A member's connection to the signaling server. It requests admission, and requests it again after
 * the connection was lost. A run trains without the server, so a member that trains tries to
 * reconnect without a time limit.
 */
import { PROTOCOL_VERSION, type ClientMessage, type IceServer, type ServerMessage } from '../../protocol/control.ts';
import type { Pulse, ReconnectReport } from '../../protocol/room.ts';
import { withinDeadline } from '../../util/deadline.ts';
import { createDebugLog } from '../../util/debugLog.ts';
import { createDeferred, type Deferred } from '../../util/deferred.ts';
import { asError, RemovedError, SignalingError } from '../../util/errors.ts';
import { Reconnection } from './reconnection.ts';
import { isTemporaryRefusal } from './refusal.ts';
import type { RendezvousOptions } from './rendezvousOptions.ts';
import { SignalingClient } from './signalingClient.ts';

/**
 * Deadline in milliseconds for the admission of a member after the connection is open. On a busy
 * line, the deadline is longer. One server process may have to ask other processes for the room.
 */
const ADMISSION_MS = 15_000;
/**
 * The number of attempts to reach the server before the first connection. If many tabs start on one
 * machine, an attempt may fail although the server runs.
 */
const FIRST_ATTEMPTS = 3;
/**
 * Deadline in milliseconds for the server's answer about other ranks. On a busy line, it is longer.
 */
const ANSWER_MS = 5_000;

const log = createDebugLog('membership');

type Hello = Extract<ClientMessage, { type: 'create' | 'join' | 'reconnect' }>;
type Admission = Extract<ServerMessage, { type: 'admitted' }>;

/** Messages that the server sends to a member of a room. */
export type ServerToMemberMessage = Exclude<
  ServerMessage,
  { type: 'admitted' | 'credentials' | 'ice' | 'heartbeat' | 'refused' | 'pulses' }
>;

interface ServerConnectionOptions extends Pick<
  RendezvousOptions,
  | 'server'
  | 'hello'
  | 'clock'
  | 'today'
  | 'random'
  | 'openSocket'
  | 'activity'
  | 'browserId'
  | 'onadmitted'
  | 'onhostkey'
  | 'onrefused'
  | 'onfatal'
> {
  onmessage: (message: ServerToMemberMessage) => void;
  /** Called when the connection is lost, before the member requests admission again. */
  onlost: () => void;
  /** Returns whether the member is in a run that continues without the server. */
  isTraining: () => boolean;
  /** Returns this member's report for a reconnect; `null` before it knows its room. */
  reconnectState: () => ReconnectReport | null;
}

export class ServerConnection {
  readonly #options: ServerConnectionOptions;
  readonly #reconnection: Reconnection;
  #client: SignalingClient | null = null;
  #admission: Admission | null = null;
  /** Whether the server has admitted this member over {@link #client}. */
  #isConnected = false;
  #iceServers: readonly IceServer[] = [];
  #browser = '';
  #isClosed = false;
  /**
   * Requests for pulses that the server has not answered yet. The server answers requests in order.
   */
  readonly #questions: Deferred<ReadonlyMap<string, Pulse>>[] = [];

  constructor(options: ServerConnectionOptions) {
    this.#options = options;
    this.#reconnection = new Reconnection(options);
  }

  /** The latest admission; `null` before the first. */
  get admission(): Admission | null {
    return this.#admission;
  }

  get iceServers(): readonly IceServer[] {
    return this.#iceServers;
  }

  get isOpen(): boolean {
    return this.#client?.isOpen ?? false;
  }

  /** Whether the server has admitted this tab, but the connection to the server is lost now. */
  get isAway(): boolean {
    return !this.#isConnected && this.#admission !== null;
  }

  /** Resolves when the server knows that this member has left, or when the connection is closed. */
  get closed(): Promise<void> {
    return this.#client?.closed ?? Promise.resolve();
  }

  /** This member, for the debug log. */
  get #name(): string {
    return this.#admission === null ? 'A tab that is not admitted' : `Member ${this.#admission.member}`;
  }

  /** Connects and requests admission. */
  async open(): Promise<void> {
    this.#browser = await this.#options.browserId();
    await this.#attempt(1);
  }

  /** Sends a message. Does nothing while the server cannot be reached. */
  send(message: ClientMessage): void {
    log(() => `${this.#name} sends ${message.type}${this.isOpen ? '' : ', but the server cannot be reached'}.`);
    this.#client?.send(message);
  }

  /**
   * Resolves with the latest pulses of those members that the server knows. The map is empty if the
   * server cannot be reached.
   */
  async pulsesOf(peers: readonly string[]): Promise<ReadonlyMap<string, Pulse>> {
    if (!this.#isConnected || peers.length === 0) return new Map();
    const answer = createDeferred<ReadonlyMap<string, Pulse>>();
    this.#questions.push(answer);
    this.send({ type: 'ask-pulses', peers: [...peers] });
    const { clock, activity } = this.#options;
    const ms = activity.answerMs(ANSWER_MS);
    return withinDeadline(clock, ms, answer.promise, () => new SignalingError('No answer.')).catch(() => new Map());
  }

  /**
   * Call this if the machine may have slept or changed its network. A lost connection is opened
   * again immediately. The server has to confirm within a few seconds that an open connection still
   * works.
   */
  wake(): void {
    if (this.#isClosed) return;
    this.#client?.check();
    this.#reconnection.restart();
  }

  close(): void {
    this.#isClosed = true;
    this.#reconnection.cancel();
    this.#client?.close();
  }

  /** Makes one of the first attempts. An attempt that fails has sent nothing. */
  async #attempt(number: number): Promise<void> {
    try {
      await this.#connect();
    } catch (error) {
      if (this.#isClosed) return;
      if (number === FIRST_ATTEMPTS) return this.#options.onfatal(asError(error));
      this.#reconnection.schedule(() => void this.#attempt(number + 1));
    }
  }

  async #connect(): Promise<void> {
    const { server, clock, activity } = this.#options;
    const hello = this.#hello();
    const client = await SignalingClient.connect(server, this.#options, {
      onmessage: (message) => this.#receive(message),
      onclose: (error) => this.#onLost(error),
    });
    if (this.#isClosed) return client.close();
    this.#client = client;
    client.send(hello);
    const ms = activity.answerMs(ADMISSION_MS);
    clock.after(ms, () => {
      if (this.#client !== client || this.#isConnected) return;
      this.#onLost(new SignalingError(`The signaling server did not answer within ${Math.round(ms / 1000)} s.`));
    });
  }

  #hello(): Hello {
    if (this.#admission === null) return { ...this.#options.hello, browser: this.#browser };
    const { member, room, token, hostKey } = this.#admission;
    const { name, rank, isSpectator } = this.#options.hello;
    const who = { version: PROTOCOL_VERSION, name, rank, isSpectator, browser: this.#browser, room } as const;
    const key = hostKey === null ? {} : { hostKey };
    const reconnectState = token === '' ? null : this.#options.reconnectState();
    if (reconnectState === null) return { type: 'join', ...who, ...key };
    const lateMs = Math.round(this.#options.activity.answerMs(0));
    const state = { ...reconnectState, ...(lateMs > 0 && { lateMs }) };
    return { type: 'reconnect', ...who, ...key, member, token, reconnectState: state };
  }

  #receive(message: ServerMessage): void {
    if (message.type !== 'heartbeat') log(() => `${this.#name} receives ${describeMessage(message)}`);
    switch (message.type) {
      case 'admitted':
        return this.#onAdmitted(message);
      case 'credentials':
        return this.#onCredentials(message);
      case 'ice':
        this.#iceServers = message.iceServers;
        return;
      case 'heartbeat':
        return;
      case 'pulses':
        return this.#questions.shift()?.resolve(new Map(message.pulses.map(({ member, pulse }) => [member, pulse])));
      case 'refused':
        return this.#onRefused(message);
      case 'room':
      case 'prepare':
      case 'sync':
      case 'go':
      case 'pause':
      case 'suspended':
      case 'signal':
      case 'feed':
      case 'spectator-update':
      case 'note':
      case 'ended':
        return this.#options.onmessage(message);
      default:
        message satisfies never;
    }
  }

  #onAdmitted(admission: Admission): void {
    this.#admission = admission;
    this.#isConnected = true;
    this.#iceServers = admission.iceServers;
    this.#reconnection.succeed();
    this.#client?.startHeartbeat(admission.heartbeatMs);
    this.#options.onadmitted(admission);
  }

  #onCredentials({ token, hostKey }: Extract<ServerMessage, { type: 'credentials' }>): void {
    if (this.#admission === null) return;
    this.#admission = { ...this.#admission, token, hostKey };
    if (hostKey !== null) this.#options.onhostkey?.(this.#admission.room, hostKey);
  }

  #onRefused({ code, message }: Extract<ServerMessage, { type: 'refused' }>): void {
    const { onrefused, onfatal } = this.#options;
    const RefusedError = code === 'removed' ? RemovedError : SignalingError;
    const error = new RefusedError(message, { room: this.#admission?.room });
    if (code === 'not-host' || code === 'not-now') return onrefused(error);
    if (!isTemporaryRefusal(code, { isAdmitted: this.#admission !== null, isServerLost: this.#reconnection.isLost })) {
      return onfatal(error);
    }
    // The server has forgotten this member. Without a token it joins as a new member.
    if (code === 'not-member' && this.#admission !== null) this.#admission = { ...this.#admission, token: '' };
    this.#onLost(error);
  }

  #onLost(error: Error): void {
    const { hello, onfatal, onlost } = this.#options;
    if (this.#isClosed || (this.#client === null && this.#reconnection.isLost)) return;
    log(() => `${this.#name} has lost the server: ${error.message}`);
    this.#client?.close();
    this.#client = null;
    this.#isConnected = false;
    for (const question of this.#questions.splice(0)) question.resolve(new Map());
    // A second `create` might open a second room, so it is not repeated.
    if (this.#admission === null && hello.type === 'create') return onfatal(error);
    onlost();
    this.#reconnectLater(error);
  }

  #reconnectLater(error: Error): void {
    const { isTraining, onfatal } = this.#options;
    this.#reconnection.lose();
    if (!isTraining() && this.#reconnection.isOverdue) return onfatal(error);
    this.#reconnection.schedule(() => {
      this.#connect().catch((again: unknown) => {
        if (!this.#isClosed) this.#reconnectLater(asError(again));
      });
    });
  }
}

/** Returns a message's type and the part that says who waits for whom, for the debug log. */
function describeMessage(message: ServerMessage): string {
  const { type } = message;
  if (type === 'room') {
    const { phase, generation, members, waitingFor } = message;
    const missing = waitingFor > 0 ? ` Waiting for ${waitingFor} more.` : '';
    const preparing = members.filter(({ device }) => device === null).map(({ member }) => member);
    const unready = preparing.length > 0 ? ` Not ready: ${preparing.join(', ')}.` : '';
    return `room: ${phase}, generation ${generation}, ${members.length} members.${missing}${unready}`;
  }
  if (type === 'prepare') {
    const { generation, members } = message;
    return `prepare: generation ${generation} of ${members.map(({ member }) => member).join(', ')}.`;
  }
  if (type === 'signal') return `signal: attempt ${message.attempt} of ${message.from}, ${message.signal.type}.`;
  if (type === 'pulses') {
    const pulses = message.pulses.map(({ member, pulse }) => {
      const { task, isSilent, ms, limitMs, awaits = [] } = pulse;
      const waits = awaits.length > 0 ? `, waits for ${awaits.join(' and ')}` : '';
      return `${member}: "${task}"${isSilent ? ', silent' : ''} for ${ms} of ${limitMs} ms${waits}`;
    });
    return `pulses: ${pulses.join('; ') || 'none'}.`;
  }
  return 'message' in message ? `${type}: ${message.message}` : `${type}.`;
}
