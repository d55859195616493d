/**
 * The check of a network before a lesson. It enters the room of network checks, links to other tabs
 * there, both by WebRTC and through the server, and measures these links. Each newcomer links to
 * tabs that were there before it.
 */
import { PROTOCOL_VERSION, type IceServer, type ServerMessage } from '../../protocol/control.ts';
import type { LinkSignal } from '../../protocol/linkSignal.ts';
import {
  areNetworkCheckPartners,
  NETWORK_CHECK_GENERATION,
  NETWORK_CHECK_ROOM,
  MAX_NETWORK_CHECK_PARTNERS,
  type NetworkCheckResult,
  type LinkSpeed,
  type NetworkReport,
  type NetworkCheckPairReport,
} from '../../protocol/networkCheck.ts';
import type { LinkRoute } from '../../protocol/runEvents.ts';
import type { RosterEntry } from '../../protocol/room.ts';
import type { Link } from '../../transport/link.ts';
import type { PeerAttempt, PeerConnectOptions } from '../../transport/peerLink.ts';
import type { ServerConnectOptions } from '../../transport/serverLink.ts';
import { ThreadActivity } from '../../util/activity.ts';
import type { Clock } from '../../util/clock.ts';
import { withinDeadline } from '../../util/deadline.ts';
import { createDeferred, type Deferred } from '../../util/deferred.ts';
import { asError, errorMessageOf, TimeoutError } from '../../util/errors.ts';
import { SignalingClient, type OpenSocket } from '../membership/signalingClient.ts';
import { answerLinkMeasurement, measureLinkSpeed } from './measureLink.ts';

/** Deadline in milliseconds for each check. */
export const NETWORK_CHECK_TIMEOUT_MS = 10_000;
/**
 * Deadline for the result of the other end, which first waits for its data channel, and measures
 * it.
 */
const ANSWER_MS = 3 * NETWORK_CHECK_TIMEOUT_MS;
/** Number of tabs to which a newcomer links, one after another. */
const MAX_INITIATED = 2;
/** Number of questions for the round trip to the server. */
const QUESTIONS = 4;

type Admission = Extract<ServerMessage, { type: 'admitted' }>;

export interface NetworkCheckOptions {
  /** URL of the signaling server (`https://host:port`). */
  server: string;
  /** Name of this tab for the others. */
  name: string;
  isSecure: boolean;
  clock: Clock;
  /** Returns milliseconds since 1970. */
  today: () => number;
  openSocket: OpenSocket;
  browserId: () => Promise<string>;
  /**
   * Resolves with an address, or with `null` if none is found. The function is `null` if there is
   * no WebRTC.
   */
  findAddress: ((type: 'host' | 'srflx' | 'relay', iceServers: readonly IceServer[]) => Promise<string | null>) | null;
  connectPeer: (options: PeerConnectOptions) => PeerAttempt;
  connectServer: (options: Omit<ServerConnectOptions, 'openSocket' | 'crypto'>) => PeerAttempt;
  /** Called with each change of the results. */
  onreport: (report: NetworkReport) => void;
}

/** Another tab of the room, and the attempts to link to it. */
interface Partner {
  readonly report: NetworkCheckPairReport;
  readonly attempts: PeerAttempt[];
}

const RUNNING = { verdict: 'running' } as const;
const aboutDirect = (route: LinkRoute) => (route === 'relayed' ? 'relayed' : 'direct');
const aboutServer = (route: LinkRoute) => (route === 'server-clear' ? 'clear' : 'encrypted');
const late = (): Error => new TimeoutError(`The check took longer than ${NETWORK_CHECK_TIMEOUT_MS / 1000} s.`);

export class NetworkCheck {
  readonly #options: NetworkCheckOptions;
  #report: NetworkReport;
  #client: SignalingClient | null = null;
  #admission: Admission | null = null;
  /** Members of the room in the order in which they joined. */
  #members: readonly RosterEntry[] = [];
  /** Partners by member id, the earliest first. The latest partners that have left are included. */
  readonly #partners = new Map<string, Partner>();
  readonly #admitted = createDeferred<Admission>();
  #answer: Deferred<void> | null = null;
  #isClosed = false;

  constructor(options: NetworkCheckOptions) {
    this.#options = options;
    this.#report = {
      page: { verdict: 'works', about: options.isSecure ? 'secure' : 'insecure' },
      socket: RUNNING,
      addresses: RUNNING,
      stun: RUNNING,
      turn: RUNNING,
      pairs: [],
    };
    // The caller of `run` receives the rejection.
    this.#admitted.promise.catch(() => {});
  }

  /**
   * Resolves when this tab has done its own checks. Until it is closed, it answers the checks of
   * other tabs.
   */
  async run(): Promise<void> {
    this.#set({});
    await Promise.all([this.#checkAddresses(), this.#checkServer()]);
  }

  close(): void {
    this.#isClosed = true;
    for (const { attempts } of this.#partners.values()) for (const attempt of attempts) attempt.abort();
    this.#client?.send({ type: 'leave' });
    this.#client?.close();
  }

  #set(changes: Partial<NetworkReport>): void {
    if (this.#isClosed) return;
    const pairs = [...this.#partners.values()].map(({ report }) => report).reverse();
    this.#report = { ...this.#report, ...changes, pairs };
    this.#options.onreport(this.#report);
  }

  async #checkAddresses(): Promise<void> {
    const { findAddress } = this.#options;
    if (findAddress === null) return this.#set({ addresses: { verdict: 'fails', about: 'no-webrtc' } });
    const address = await findAddress('host', []).catch(() => null);
    this.#set({
      addresses:
        address === null
          ? { verdict: 'fails', about: 'none' }
          : { verdict: 'works', about: address.endsWith('.local') ? 'names' : 'addresses' },
    });
  }

  async #checkServer(): Promise<void> {
    try {
      const roundTripMs = await this.#enter();
      this.#set({ socket: { verdict: 'works', about: 'answered', roundTripMs } });
    } catch (error) {
      this.#fail(errorMessageOf(error));
      return;
    }
    const { iceServers } = await this.#admitted.promise;
    await Promise.all([
      // Called first, so that no report says that there are no other tabs.
      this.#beginPairs(),
      this.#checkIce('stun', 'srflx', iceServers),
      this.#checkIce('turn', 'relay', iceServers),
    ]);
  }

  /** Enters the room and measures the round trip to the server. */
  async #enter(): Promise<number> {
    const { server, name, clock, browserId } = this.#options;
    const browser = await browserId();
    const activity = new ThreadActivity(clock);
    const client = await SignalingClient.connect(
      server,
      { ...this.#options, activity },
      { onmessage: (message) => this.#receive(message), onclose: (error) => this.#lose(error.message) },
    );
    if (this.#isClosed) client.close();
    this.#client = client;
    client.send({ type: 'join', version: PROTOCOL_VERSION, room: NETWORK_CHECK_ROOM, name, browser });
    const { heartbeatMs, member } = await withinDeadline(clock, NETWORK_CHECK_TIMEOUT_MS, this.#admitted.promise, late);
    client.startHeartbeat(heartbeatMs);
    let shortest = Infinity;
    for (let i = 0; i < QUESTIONS; i++) {
      const startedAt = clock.now();
      this.#answer = createDeferred();
      // A heartbeat's answer would stay in the thread that sends heartbeats.
      client.send({ type: 'ask-pulses', peers: [member] });
      await withinDeadline(clock, NETWORK_CHECK_TIMEOUT_MS, this.#answer.promise, late);
      shortest = Math.min(shortest, clock.now() - startedAt);
    }
    return shortest;
  }

  #receive(message: ServerMessage): void {
    switch (message.type) {
      case 'admitted':
        this.#admission = message;
        return this.#admitted.resolve(message);
      case 'credentials':
        if (this.#admission !== null) this.#admission = { ...this.#admission, token: message.token };
        return;
      case 'pulses':
        return this.#answer?.resolve();
      case 'refused':
        return this.#lose(message.message, 'refused');
      case 'room':
        this.#members = message.members;
        return this.#dropUnfinished();
      case 'signal':
        return this.#onSignal(message.from, message.signal);
      case 'heartbeat':
      // These messages are ignored: TURN passwords outlive the checks, and nobody trains in this
      // room.
      case 'ice':
      case 'prepare':
      case 'sync':
      case 'go':
      case 'pause':
      case 'suspended':
      case 'feed':
      case 'spectator-update':
      case 'note':
      case 'ended':
        return;
      default:
        message satisfies never;
    }
  }

  #lose(why: string, about: 'no-answer' | 'refused' = 'no-answer'): void {
    const error = new Error(why);
    this.#admitted.reject(error);
    this.#answer?.reject(error);
    this.#fail(why, about);
  }

  /** Reports why the server was lost. A second reason is ignored. */
  #fail(message: string, about: 'no-answer' | 'refused' = 'no-answer'): void {
    if (this.#report.socket.verdict === 'fails') return;
    const untried = { verdict: 'not-tried', about: 'no-server' } as const;
    const { stun, turn } = this.#report;
    this.#set({
      socket: { verdict: 'fails', about, message },
      stun: stun.verdict === 'running' ? untried : stun,
      turn: turn.verdict === 'running' ? untried : turn,
    });
  }

  /** @param kind kind of server, as in the scheme of its URL. */
  async #checkIce(kind: 'stun' | 'turn', type: 'srflx' | 'relay', iceServers: readonly IceServer[]): Promise<void> {
    const { findAddress } = this.#options;
    if (findAddress === null) return this.#set({ [kind]: { verdict: 'not-tried', about: 'no-webrtc' } });
    const servers = iceServers.filter(({ urls }) => [urls].flat().some((url) => url.startsWith(kind)));
    if (servers.length === 0) return this.#set({ [kind]: { verdict: 'not-tried', about: 'none' } });
    const address = await findAddress(type, servers).catch(() => null);
    this.#set({
      [kind]: address === null ? { verdict: 'fails', about: 'no-answer' } : { verdict: 'works', about: 'found' },
    });
  }

  /** Links to members that joined before this one, first to those in other browsers. */
  async #beginPairs(): Promise<void> {
    const me = this.#admission!.member;
    const at = this.#members.findIndex(({ member }) => member === me);
    const before = this.#members.slice(Math.max(0, at - MAX_NETWORK_CHECK_PARTNERS), at).reverse();
    const inOrder = [...before].sort((a, b) => Number(this.#isSameBrowser(a)) - Number(this.#isSameBrowser(b)));
    const chosen = inOrder.slice(0, MAX_INITIATED);
    // All pairs are reported from the beginning.
    for (const peer of chosen) this.#add(peer, []);
    for (const peer of chosen) {
      if (!this.#isClosed && this.#members.some(({ member }) => member === peer.member)) await this.#link(peer, true);
    }
  }

  #isSameBrowser({ browser }: RosterEntry): boolean {
    return this.#members.some((one) => one.member === this.#admission?.member && one.browser === browser);
  }

  #onSignal(from: string, signal: LinkSignal): void {
    const peer = this.#members.find(({ member }) => member === from);
    if (peer === undefined || this.#admission === null) return;
    const known = this.#partners.get(from);
    // The first signal of a newcomer begins a pair.
    if (known === undefined && areNetworkCheckPartners(this.#members, this.#admission.member, from))
      void this.#link(peer, false);
    for (const attempt of this.#partners.get(from)?.attempts ?? []) attempt.signal(signal);
  }

  /** Forgets pairs whose other tab has left before their checks were done. */
  #dropUnfinished(): void {
    for (const [member, { report, attempts }] of this.#partners) {
      const isHere = this.#members.some((one) => one.member === member);
      if (isHere || ![report.direct, report.server].some(({ verdict }) => verdict === 'running')) continue;
      for (const attempt of attempts) attempt.abort();
      this.#partners.delete(member);
    }
    this.#set({});
  }

  #add(peer: RosterEntry, attempts: PeerAttempt[]): void {
    const { member, name } = peer;
    // The results of a tab that was reloaded replace its earlier results.
    for (const [id, { report }] of this.#partners) {
      if (report.name === name && !this.#members.some((one) => one.member === id)) this.#partners.delete(id);
    }
    const report: NetworkCheckPairReport = {
      name,
      isSameBrowser: this.#isSameBrowser(peer),
      direct: RUNNING,
      server: RUNNING,
    };
    this.#partners.set(member, { report, attempts });
    const gone = [...this.#partners.keys()].filter((id) => !this.#members.some((one) => one.member === id));
    for (const id of gone.slice(0, -MAX_NETWORK_CHECK_PARTNERS)) this.#partners.delete(id);
    this.#set({});
  }

  /** Links to another tab by WebRTC and through the server at once, and measures both links. */
  async #link(peer: RosterEntry, initiator: boolean): Promise<void> {
    const { connectPeer, connectServer, findAddress, server } = this.#options;
    const { member, room, token, iceServers, iceTransportPolicy, serverLinks } = this.#admission!;
    const attempts: PeerAttempt[] = [];
    const onsignal = (signal: LinkSignal): void =>
      this.#client?.send({ type: 'signal', generation: NETWORK_CHECK_GENERATION, to: peer.member, attempt: 0, signal });
    const change = (changes: Partial<NetworkCheckPairReport>): void => {
      const partner = this.#partners.get(peer.member);
      if (partner?.attempts !== attempts) return;
      this.#partners.set(peer.member, { attempts, report: { ...partner.report, ...changes } });
      this.#set({});
    };
    this.#add(peer, attempts);
    const open = async (connect: () => PeerAttempt): Promise<Link | Error> => {
      try {
        const attempt = connect();
        attempts.push(attempt);
        return await withinDeadline(this.#options.clock, NETWORK_CHECK_TIMEOUT_MS, attempt.link, late);
      } catch (error) {
        return asError(error);
      }
    };
    const common = { initiator, onsignal };
    const toServer = { server, room, member, token, generation: NETWORK_CHECK_GENERATION, peer: peer.member };
    const direct =
      findAddress === null || serverLinks === 'only'
        ? null
        : open(() => connectPeer({ ...common, iceServers, iceTransportPolicy, connections: 1 }));
    const served = serverLinks === 'off' ? null : open(() => connectServer({ ...common, ...toServer }));
    const untried = findAddress === null ? 'no-webrtc' : 'only-server';
    const checkDirect = async (): Promise<void> => {
      if (direct === null) return change({ direct: { verdict: 'not-tried', about: untried } });
      change({ direct: await this.#check(await direct, initiator, aboutDirect, 'no-connection') });
    };
    const checkServed = async (): Promise<void> => {
      if (served === null) return change({ server: { verdict: 'not-tried', about: 'off' } });
      change({ server: await this.#check(await served, initiator, aboutServer, 'no-link') });
    };
    // The end that measures uses one link after the other, so that they do not share the line.
    if (initiator) {
      await checkDirect();
      await checkServed();
    } else await Promise.all([checkDirect(), checkServed()]);
    for (const attempt of attempts) attempt.abort();
  }

  /**
   * @param link an open link, or the reason why it did not open. In the latter case, `unopened` is
   *   reported.
   */
  async #check<Works extends string, Fails extends string>(
    link: Link | Error,
    initiator: boolean,
    aboutRoute: (route: LinkRoute) => Works,
    unopened: Fails,
  ): Promise<NetworkCheckResult<Works, Fails | 'too-slow', never>> {
    if (link instanceof Error) return { verdict: 'fails', about: unopened, message: link.message };
    try {
      const { route } = await link.describe();
      return { verdict: 'works', about: aboutRoute(route), ...(await this.#measure(link, initiator)) };
    } catch (error) {
      return { verdict: 'fails', about: 'too-slow', message: errorMessageOf(error) };
    }
  }

  #measure(link: Link, initiator: boolean): Promise<LinkSpeed> {
    const { clock } = this.#options;
    return initiator
      ? withinDeadline(clock, NETWORK_CHECK_TIMEOUT_MS, measureLinkSpeed(link, clock), late)
      : withinDeadline(clock, ANSWER_MS, answerLinkMeasurement(link), late);
  }
}
