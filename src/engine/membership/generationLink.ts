/**
 * Connects two ranks for a generation, either over their connection of an earlier generation, or by
 * new attempts until a deadline.
 *
 * Ring neighbours both know that they have to connect, and the member with the lower id initiates.
 * Any other link is initiated by the rank that sends first. If both send at the same time, the
 * attempts of the member with the lower id are used.
 *
 * There are two tracks of attempts. Direct attempts use WebRTC. Tabs of one browser may be linked
 * by a MessagePort (`transport: auto`). Then only their first direct attempt uses a port. Attempts
 * of the other track link through the signaling server. They begin later than direct attempts,
 * unless the room knows that the two members cannot connect directly.
 *
 * The initiating end alone chooses between the tracks, so that both ends use the same connection.
 * It chooses the first connection that opens, and greets over that connection only. The other end
 * greets over each connection that opens, and uses the one over which it gets an answer. If the
 * direct connection opens later than the chosen one, both ends keep it for the next generation.
 *
 * If a direct connection stalls, the member with the lower id tries the server. Once both ends have
 * greeted over the server, both are alive although the direct connection is not. They then replace
 * the direct connection, which ends the generation. If something arrives over the direct connection
 * before that, nothing changes.
 */
import type { IceServer } from '../../protocol/control.ts';
import { isPeerSignal, type LinkSignal } from '../../protocol/linkSignal.ts';
import { SERVER_LINK_PATH } from '../../protocol/serverLink.ts';
import { waitForFirstFrame, performHandshake } from '../../transport/handshake.ts';
import type { Link } from '../../transport/link.ts';
import type { PeerAttempt } from '../../transport/peerLink.ts';
import { LinkAcrossGenerations } from '../../transport/linkAcrossGenerations.ts';
import { createDebugLog } from '../../util/debugLog.ts';
import { createDeferred } from '../../util/deferred.ts';
import { errorMessageOf, PeerGoneError, TimeoutError } from '../../util/errors.ts';
import {
  linkAttemptTimeoutMs,
  LinkAttemptTrack,
  linkAttemptBackoffMs,
  beginsLinkAttempt,
  cancelLinkAttempt,
  type LinkAttempt,
  type OpenedConnection,
} from './linkAttemptTrack.ts';
import { randomId } from './browserId.ts';
import { ConnectionReuse } from './connectionReuse.ts';
import type { GenerationLinkOptions, PeerConnector, ServerConnector } from './generationLinkOptions.ts';

/**
 * Deadline in milliseconds for opening a link, including all attempts. It is one second shorter
 * than the server's own deadline, because only the rank's error names the link that failed.
 */
export const LINKING_TIMEOUT_MS = 14_000;
/**
 * A link that is opened on demand may take this many times {@link LINKING_TIMEOUT_MS}. Only an op
 * waits for such a link, and the op has its own deadline. On a busy machine, the first attempts may
 * all be too slow.
 */
export const ON_DEMAND_TIMEOUT_FACTOR = 4;
/**
 * Milliseconds between the other end's first answer to a direct attempt and the first attempt
 * through the server. The time begins with the answer, because an end on a busy machine may answer
 * late and then connect quickly. If an end computes or loads when the time is over, the same time
 * is added, but only once, because ranks of a run that grows compute all the time.
 */
export const SERVER_LINK_ATTEMPT_DELAY_MS = 3_000;
/**
 * Used instead of {@link SERVER_LINK_ATTEMPT_DELAY_MS} if there is a TURN server. It is longer,
 * because a TURN relay is preferred.
 */
export const SERVER_LINK_ATTEMPT_DELAY_WITH_TURN_MS = 8_000;
/**
 * Milliseconds by which a direct attempt begins before the first attempt through the server if the
 * pair has needed the server before, or its direct connection no longer works. The direct attempt
 * may succeed, because the network may have changed, or may have been slow only for a moment.
 */
export const DIRECT_HEAD_START_MS = 1_000;
/**
 * Milliseconds between the reuse of a connection through the server and a direct attempt. The other
 * end must have completed its handshake by then.
 */
export const DIRECT_RETRY_DELAY_MS = 3_000;
/**
 * Deadline in milliseconds for an attempt with a port. The browser may have to start a process for
 * the SharedWorker that hands out ports (`transport/brokerWorker.ts`), which takes 1-2 s if all
 * cores are busy.
 */
const PORT_TIMEOUT_MS = 3_000;
const log = createDebugLog('links');

/**
 * This rank's link to another rank in one generation, from the first attempt until it is closed.
 */
export class GenerationLink {
  readonly #options: GenerationLinkOptions;
  readonly #isLower: boolean;
  /** Whether this end starts attempts. If not, it answers the attempts of the other end. */
  #isInitiator = false;
  /** Whether this end's next direct attempt uses a port. */
  #asksForPort: boolean;
  readonly #linked = createDeferred<Link>();
  readonly #direct = new LinkAttemptTrack('direct');
  readonly #server = new LinkAttemptTrack('server');
  /**
   * On the initiating end, settles when the two ranks are linked over the chosen connection, or the
   * handshake over it has failed; `null` while no connection is chosen.
   */
  #choice: Promise<void> | null = null;
  /** Cancels the timer of the first attempt through the server; `null` if it does not run. */
  #cancelServerTimer: (() => void) | null = null;
  /** Cancels the timer of {@link DIRECT_RETRY_DELAY_MS}. */
  #cancelRetry: () => void = () => {};
  #isOver = false;
  /**
   * Whether {@link link} was called. If so, and if the handshake over an earlier connection fails,
   * new attempts follow.
   */
  #isWanted = false;
  readonly #earlier: ConnectionReuse;
  #reusing: Promise<boolean> | null = null;
  /** The connection over which the two ranks are linked; `null` until the handshake is over. */
  #connection: LinkAcrossGenerations | null = null;
  /** The link; `null` until it is open. */
  #opened: Link | null = null;
  /** Whether a connection through the server may replace the direct one, which may have stalled. */
  #isStalled = false;

  constructor(options: GenerationLinkOptions) {
    this.#options = options;
    this.#isLower = options.self.member < options.peer.member;
    this.#asksForPort = options.connectTab !== null;
    this.#earlier = new ConnectionReuse({
      ...options,
      onfailure: (kind, failure) => {
        (kind === 'served' ? this.#server : this.#direct).failure = failure;
        log(() => `${this.#name} cannot use the connection of an earlier generation: ${failure}`);
      },
    });
    // Prevents an unhandled rejection if `close` is called before `link`.
    this.#linked.promise.catch(() => {});
  }

  /**
   * Resolves with the link once both ends have identified each other. May be called while {@link
   * reuse} or an earlier call is pending.
   *
   * @param initiates whether this end starts attempts. If not, it waits for attempts of the other
   *   end.
   * @param times limit of the linking time, as a multiple of LINKING_TIMEOUT_MS. Time in which an
   *   end is delayed does not count.
   * @throws (rejects) TimeoutError after that time. The error's message contains the failure of the
   *   last attempt of each kind.
   */
  async link(initiates = this.#isLower, times = 1): Promise<Link> {
    this.#isWanted = true;
    log(() => `${this.#name} ${initiates ? 'is opened' : 'waits for attempts of the other end'}.`);
    const watch = new AbortController();
    this.#expireAfter(times * LINKING_TIMEOUT_MS, watch.signal);
    if (!this.#hasAttempt && !(await this.#reuse())) {
      // This end starts no second attempt: during the handshake, an offer may have arrived, or
      // another call may have started an attempt.
      if (initiates && !this.#hasAttempt && !this.#isOver) {
        this.#isInitiator = true;
        this.#begin();
      }
    }
    try {
      this.#opened = await this.#linked.promise;
      if (log.isOn()) void this.#logRoute(this.#opened);
      return this.#opened;
    } catch (error) {
      this.#direct.stop();
      this.#server.stop();
      throw error;
    } finally {
      this.#isOver = true;
      this.#stopServerTimer();
      watch.abort();
    }
  }

  /** The two ends, for the debug log. */
  get #name(): string {
    const { self, peer } = this.#options;
    return `Link of rank ${self.rank} to rank ${peer.rank} (${peer.member}), generation ${self.generation},`;
  }

  get #hasAttempt(): boolean {
    return this.#direct.latest !== null || this.#server.latest !== null;
  }

  async #logRoute(link: Link): Promise<void> {
    const { route, roundTripMs } = await link.describe();
    log(() => `${this.#name} is open; route ${route}, round trip ${roundTripMs ?? 'unknown'} ms.`);
  }

  /**
   * Ends linking after `ms`. If an end is delayed at that moment, the link gets more time instead.
   */
  #expireAfter(ms: number, signal: AbortSignal): void {
    const { clock, isDelayed } = this.#options;
    const expire = async (): Promise<void> => {
      const late = this.#tooLate(ms);
      const isExcused = await isDelayed();
      if (signal.aborted) return;
      log(() => `${late.message}${isExcused ? ' An end computes or loads, so the link waits longer.' : ''}`);
      if (isExcused) this.#expireAfter(LINKING_TIMEOUT_MS, signal);
      else this.#linked.reject(late);
    };
    const cancelTimer = clock.after(ms, () => void expire());
    signal.addEventListener('abort', cancelTimer, { once: true });
  }

  #tooLate(ms: number): TimeoutError {
    const { self, peer, connect, connectServer } = this.#options;
    const throughServer = this.#server.failure === null ? null : `Through the server: ${this.#server.failure}`;
    const failures = [this.#direct.failure, throughServer].filter((failure) => failure !== null);
    const remedy = connectServer === null ? ' or links through the server (--server-links on)' : '';
    return new TimeoutError(
      `Rank ${self.rank} could not connect to rank ${peer.rank} within ${ms / 1000} s: ` +
        `${failures.join(' ') || 'No connection was opened.'} ` +
        (connect === null
          ? `All links go through the server (--server-links only): check that proxies and firewalls let WebSockets at ${SERVER_LINK_PATH} through.`
          : `If the two are in different networks, the server needs a TURN relay (--turn)${remedy}.`),
      { generation: self.generation, rank: self.rank, missing: [peer.rank] },
    );
  }

  /** Whether a connection of an earlier generation to this member exists. */
  get canReuse(): boolean {
    return this.#options.pool.has(this.#options.peer.member);
  }

  /** Whether linking has failed. To link to the same rank again, create another link. */
  get hasFailed(): boolean {
    return this.#isOver && this.#opened === null;
  }

  /** The connection over which the two ranks are linked; `null` until they are. */
  get connection(): LinkAcrossGenerations | null {
    return this.#connection;
  }

  /** Whether the two ranks are linked through the server. */
  get isServed(): boolean {
    return this.#connection !== null && this.#options.pool.kindOf(this.#connection) === 'served';
  }

  /**
   * Resolves with a link over the connection of an earlier generation. If that connection is dead,
   * but one end has started an attempt, resolves with the link of that attempt, as {@link link}
   * does.
   *
   * @throws (rejects) PeerGoneError if the connection is dead and neither end has started an
   *   attempt; TimeoutError as {@link link} does.
   */
  async reuse(): Promise<Link> {
    if (await this.#reuse()) {
      this.#opened = await this.#linked.promise;
      if (log.isOn()) void this.#logRoute(this.#opened);
      this.#isOver = true;
      return this.#opened;
    }
    if (this.#isWanted || this.#hasAttempt) return this.link(false);
    this.#isOver = true;
    throw new PeerGoneError('The connection of the previous generation is closed.');
  }

  #reuse(): Promise<boolean> {
    this.#reusing ??= this.#greetAgain();
    return this.#reusing;
  }

  async #greetAgain(): Promise<boolean> {
    const { pool, peer, relayOnly } = this.#options;
    if (relayOnly) pool.dropDirect(peer.member);
    const used = await this.#earlier.run();
    if (used === null) return false;
    this.#use(used);
    if (this.isServed && this.#isLower) {
      this.#cancelRetry = this.#options.clock.after(DIRECT_RETRY_DELAY_MS, () => this.#retryDirect());
    }
    return true;
  }

  /**
   * Tries to connect directly, although the ranks are linked through the server. The direct
   * connection is kept for the next generation.
   */
  #retryDirect(): void {
    this.#isInitiator = true;
    this.#choice = Promise.resolve();
    this.#open(this.#direct);
  }

  /** Handles a signal from the other end. */
  signal(id: number, signal: LinkSignal): void {
    const { self, peer, isFixed } = this.#options;
    const begins = beginsLinkAttempt(id, signal, { from: peer.member, to: self.member });
    const isDirect = this.#connection !== null && !this.isServed;
    if (begins && signal.type === 'server' && isDirect && !isFixed && !this.#isLower) {
      this.#prepareToReplace();
      this.#follow(id, signal);
    }
    if (this.#isOver && !this.isServed && !this.#isStalled) return;
    if (begins && this.isServed && signal.type !== 'server') {
      if (!this.#isInitiator) this.#follow(id, signal);
    } else if (begins && this.#connection === null) {
      // The signal shows that the other end has lost the connection of the earlier generation.
      this.#earlier.cancel(false);
      // If both ends initiate, the attempts of the member with the lower id are used. The other end
      // answers them.
      if (this.#isInitiator && !this.#isLower) this.#yield();
      if (!this.#isInitiator) this.#follow(id, signal);
    }
    // If the ranks are linked through the server, a direct attempt may still be in progress.
    if (signal.type === 'server') this.#server.signal(id, signal);
    else if (isPeerSignal(signal) && this.#direct.signal(id, signal) && this.#isInitiator) this.#onAnswer();
  }

  /** Cancels linking, or closes the link. The connection stays open in the pool. */
  close(): void {
    this.#isOver = true;
    this.#cancelRetry();
    this.#linked.reject(new PeerGoneError('Linking was cancelled.'));
    this.#earlier.cancel(true);
    if (!this.#opened) return;
    this.#opened.onclose = null;
    this.#opened.close();
  }

  #yield(): void {
    this.#isInitiator = false;
    this.#choice = null;
    this.#stopServerTimer();
    this.#direct.reset();
    this.#server.reset();
  }

  /** Starts the first attempts of this end. */
  #begin(): void {
    const { isServed } = this.#options;
    this.#open(this.#direct);
    if (this.#direct.latest === null) this.#beginServer();
    else if (isServed || this.#direct.failure !== null) this.#beginServerAfter(DIRECT_HEAD_START_MS);
  }

  /** Starts to try the server, unless this end tries it already. */
  #beginServer(): void {
    this.#stopServerTimer();
    if (this.#mayOpen && this.#choice === null && this.#server.latest === null) this.#open(this.#server);
  }

  /** Whether this end may start attempts. */
  get #mayOpen(): boolean {
    return this.#isInitiator && (this.#isReplaceable || (!this.#isOver && this.#connection === null));
  }

  /** Whether a connection through the server may replace the direct one now. */
  get #isReplaceable(): boolean {
    return this.#isStalled && this.#opened?.state === 'open';
  }

  /** Called on both ends, but only the member with the lower id begins attempts. */
  #onStall(isStalled: boolean): void {
    log(() => `${this.#name} ${isStalled ? 'has stalled' : 'works again'}.`);
    if (!isStalled) {
      this.#isStalled = false;
      this.#stopServer();
    } else if (this.#isLower && !this.#options.isFixed) {
      this.#prepareToReplace();
      this.#beginServer();
    }
  }

  #prepareToReplace(): void {
    this.#isStalled = true;
    // If the other end has initiated this link, the ids of its attempts are not continued.
    if (this.#isInitiator !== this.#isLower) this.#server.reset();
    this.#isInitiator = this.#isLower;
    this.#choice = null;
  }

  /** Whether a TURN relay may connect the two ranks. */
  get #prefersRelay(): boolean {
    const { iceServers, relayOnly } = this.#options;
    return relayOnly || iceServers.some(isTurn);
  }

  /** Handles the other end's answer to a direct attempt. */
  #onAnswer(): void {
    if (this.#isOver || this.#choice !== null) return;
    // With a TURN server, the first direct attempt is over before the timer fires.
    if (this.#options.isFixed && !this.#prefersRelay) return;
    if (this.#cancelServerTimer !== null || this.#server.latest !== null) return;
    this.#beginServerAfter(
      this.#prefersRelay ? SERVER_LINK_ATTEMPT_DELAY_WITH_TURN_MS : SERVER_LINK_ATTEMPT_DELAY_MS,
      SERVER_LINK_ATTEMPT_DELAY_MS,
    );
  }

  /** @param longerMs how much longer to wait if an end is delayed when `ms` are over. */
  #beginServerAfter(ms: number, longerMs = 0): void {
    const { connectServer, clock, isDelayed } = this.#options;
    if (connectServer === null) return;
    const begin = async (): Promise<void> => {
      const isExcused = longerMs > 0 && (await isDelayed());
      if (this.#cancelServerTimer !== cancel) return;
      log(() => `${this.#name} has had no direct connection for ${ms} ms.${isExcused ? ' An end computes.' : ''}`);
      if (isExcused) this.#beginServerAfter(longerMs);
      else this.#beginServer();
    };
    const cancel = clock.after(ms, () => void begin());
    this.#cancelServerTimer = cancel;
  }

  #stopServerTimer(): void {
    this.#cancelServerTimer?.();
    this.#cancelServerTimer = null;
  }

  #stopServer(): void {
    this.#stopServerTimer();
    this.#server.stop();
  }

  /** Starts the next attempt of this end, if attempts of this kind are possible. */
  #open(track: LinkAttemptTrack): void {
    const { connect, connectTab, connectServer, send } = this.#options;
    const id = track.nextId(this.#isLower);
    if (track.kind === 'server') {
      if (connectServer !== null) this.#start(track, id, this.#connectServer(connectServer, id));
    } else if (connectTab !== null && this.#asksForPort) {
      this.#asksForPort = false;
      const key = randomId();
      this.#start(track, id, connectTab({ initiator: true, key }), PORT_TIMEOUT_MS);
      send(id, { type: 'port', key });
    } else if (connect !== null) this.#start(track, id, this.#connect(connect, id));
  }

  /** Answers an attempt of the other end, if attempts of this kind are possible. */
  #follow(id: number, signal: LinkSignal): void {
    const { connect, connectTab, connectServer } = this.#options;
    const track = signal.type === 'server' ? this.#server : this.#direct;
    if (!track.isNew(id)) return;
    if (signal.type === 'server') {
      if (connectServer !== null) this.#start(track, id, this.#connectServer(connectServer, id));
    } else if (signal.type === 'port') {
      if (connectTab === null) return;
      this.#start(track, id, connectTab({ initiator: false, key: signal.key }), PORT_TIMEOUT_MS);
    } else if (connect !== null) this.#start(track, id, this.#connect(connect, id));
  }

  #connect(connect: PeerConnector, id: number): PeerAttempt {
    const { iceServers, relayOnly, send } = this.#options;
    const iceTransportPolicy = relayOnly ? 'relay' : 'all';
    const onsignal = (signal: LinkSignal): void => send(id, signal);
    try {
      return connect({ initiator: this.#isInitiator, iceServers, iceTransportPolicy, onsignal });
    } catch (error) {
      // Browser extensions and policies can disable WebRTC.
      const why = `This browser cannot open WebRTC connections (${errorMessageOf(error)}).`;
      return { link: Promise.reject(new PeerGoneError(why)), signal: () => {}, abort: () => {} };
    }
  }

  #connectServer(connect: ServerConnector, id: number): PeerAttempt {
    const { self, peer, send } = this.#options;
    const { generation, member } = self;
    const onsignal = (signal: LinkSignal): void => send(id, signal);
    return connect({ initiator: this.#isInitiator, generation, member, peer: peer.member, onsignal });
  }

  #start(track: LinkAttemptTrack, id: number, peer: PeerAttempt, portMs: number | null = null): void {
    const attempt = track.start(id, peer, portMs !== null);
    const timeoutMs = portMs ?? linkAttemptTimeoutMs(id);
    log(() => {
      const role = this.#isInitiator ? 'begins' : 'answers';
      const relay = this.#options.relayOnly ? ', by a relay only' : '';
      const how = track.kind === 'server' ? ' through the server' : portMs === null ? '' : ' by a port';
      return `${this.#name} ${role} attempt ${id}${how}, ${timeoutMs} ms${track.kind === 'direct' ? relay : ''}.`;
    });
    void this.#await(track, attempt, timeoutMs);
  }

  async #await(track: LinkAttemptTrack, attempt: LinkAttempt, timeoutMs: number): Promise<void> {
    let isLate = false;
    const cancelTimer = this.#options.clock.after(timeoutMs, () => {
      isLate = attempt.opened === null;
      cancelLinkAttempt(attempt);
    });
    try {
      const shared = new LinkAcrossGenerations(await attempt.peer.link);
      if (attempt.isCancelled) {
        shared.close();
        throw new PeerGoneError('The attempt was cancelled.');
      }
      attempt.opened = { shared, view: shared.view(this.#options.self.generation) };
      if (this.#isInitiator) await this.#choose(track, attempt.opened, timeoutMs);
      else await this.#answer(track, attempt.opened, timeoutMs);
    } catch (error) {
      cancelLinkAttempt(attempt);
      const late = `No connection was opened within ${timeoutMs / 1000} s.`;
      this.#onFailure(track, attempt, isLate ? late : errorMessageOf(error));
    } finally {
      cancelTimer();
    }
  }

  /** On the initiating end, chooses an open connection, unless another connection is chosen. */
  async #choose(track: LinkAttemptTrack, opened: OpenedConnection, timeoutMs: number): Promise<void> {
    while (this.#choice !== null) {
      const isLinked = await this.#choice.then(
        () => true,
        () => false,
      );
      if (!isLinked) continue;
      // The other end's greeting shows that the connection is open at that end, too.
      await waitForFirstFrame(opened.view);
      return this.#keep(opened);
    }
    if (opened.view.state === 'closed') throw new PeerGoneError('The connection is closed.');
    log(() => `${this.#name} chooses the ${track.kind} connection.`);
    if (track.kind === 'direct') this.#stopServer();
    this.#choice = this.#greet(track, opened, timeoutMs);
    try {
      await this.#choice;
    } catch (error) {
      this.#choice = null;
      throw error;
    }
  }

  /**
   * On the other end, greets over an open connection. If the initiating end has not chosen the
   * connection, the greeting gets no answer.
   */
  async #answer(track: LinkAttemptTrack, opened: OpenedConnection, timeoutMs: number): Promise<void> {
    const greeting = this.#greet(track, opened, timeoutMs);
    if (track.kind === 'direct' && this.isServed) opened.view.close();
    try {
      await greeting;
    } catch (error) {
      if (track.kind === 'server' || !this.isServed || opened.shared.state === 'closed') throw error;
      this.#keep(opened);
    }
  }

  /** Links the two ranks over a connection once both ends have identified each other. */
  async #greet(track: LinkAttemptTrack, { shared, view }: OpenedConnection, timeoutMs: number): Promise<void> {
    const { self, peer, pool, relayOnly, clock } = this.#options;
    await performHandshake(view, self, peer, { timeoutMs, clock });
    if (track.kind === 'server' && this.#isReplaceable) {
      log(() => `${this.#name} is replaced by a connection through the server, for the next generation.`);
      this.#isStalled = false;
      view.close();
      const why = `Rank ${peer.rank} can be reached through the server only: nothing arrives over the direct connection.`;
      return pool.replaceStalled(peer.member, shared, new PeerGoneError(why));
    }
    if (this.#isOver || this.#connection !== null) throw new PeerGoneError('Linking has ended.');
    pool.put(peer.member, shared, track.kind === 'server' ? 'served' : relayOnly ? 'relayed' : 'direct');
    this.#use({ shared, view });
    if (track.kind === 'direct') this.#stopServer();
    // On the other end, a greeting over the direct connection may wait for an answer.
    else if (!this.#isInitiator) this.#direct.latest?.opened?.view.close();
  }

  #use({ shared, view }: OpenedConnection): void {
    this.#connection = shared;
    view.onstall = (isStalled) => this.#onStall(isStalled);
    this.#linked.resolve(view);
  }

  /** Keeps a direct connection for the next generation. */
  #keep({ shared, view }: OpenedConnection): void {
    const { pool, peer, relayOnly } = this.#options;
    log(() => `${this.#name} has a direct connection now, which the next generation uses.`);
    view.close();
    const kind = relayOnly ? 'relayed' : 'direct';
    pool.keepForNext(peer.member, { link: shared, kind, decides: this.#isInitiator });
  }

  #onFailure(track: LinkAttemptTrack, attempt: LinkAttempt, failure: string): void {
    track.failure = failure;
    const { connect, clock } = this.#options;
    const isWanted = (): boolean => this.#mayOpen && track.latest === attempt;
    const retries = isWanted() && (track.kind === 'server' || connect !== null);
    log(() => `${this.#name} attempt ${attempt.id} failed${retries ? ', and is repeated' : ''}: ${failure}`);
    // The server is not tried yet after the failure of a port, which says nothing about WebRTC, nor
    // before the timer fires, because an attempt over a relay may still succeed.
    const waits = attempt.usesPort ? connect !== null : this.#prefersRelay && this.#cancelServerTimer !== null;
    if (track.kind === 'direct' && isWanted() && !waits) this.#beginServer();
    if (!retries) return;
    clock.after(linkAttemptBackoffMs(attempt.id), () => {
      if (isWanted()) this.#open(track);
    });
  }
}

function isTurn({ urls }: IceServer): boolean {
  return [urls].flat().some((url) => /^turns?:/.test(url));
}
