/**
 * One member's life as the signaling server orders it: admitted to a room, linked to neighbours in an epoch, synchronised,
 * running, and back to waiting. Who trains what is not its concern: it hands each epoch to `onepoch`.
 *
 *   OFFLINE -> WAITING -> LINKING(e) -> SYNCING(e) -> RUNNING(e) -> WAITING
 *
 * `prepare` of a newer epoch cancels whatever the older one was doing, from any state.
 */
import type { RankState } from '../protocol/events.ts';
import type { ClientMessage, IceServer, RosterEntry, ServerMessage } from '../protocol/control.ts';
import type { JobSpec } from '../protocol/job.ts';
import type { Mesh } from '../collectives/mesh.ts';
import { localRankOf, type LocalRank } from '../protocol/ranks.ts';
import type { Link } from '../transport/link.ts';
import type { Clock } from '../util/clock.ts';
import { within } from '../util/deadline.ts';
import { deferred, type Deferred } from '../util/deferred.ts';
import { asError, PeerGoneError, PeergradError, ProtocolError, SignalingError } from '../util/errors.ts';
import { browserId } from './browserId.ts';
import { EpochLinks } from './epochLinks.ts';
import type { PeerConnector } from './linking.ts';
import { SignalingClient } from './signaling.ts';

/**
 * How long a rank that lost a neighbour waits for the server to say who left before it reports the loss itself: the server
 * hears of a closed tab within milliseconds and knows its name.
 */
const VERDICT_GRACE_MS = 1_500;

/** Longer than the longest of the server's own deadlines (two minutes for SYNCING). */
const SERVER_TIMEOUT_MS = 150_000;

/** How long links stay open after a run that no server ended: a slower neighbour may still need the last frames. */
const FAREWELL_MS = 2_000;
const SERVER_AWAY = 'The run has ended, but the signaling server is away: reload the page to join again.';

/** One epoch as its trainer sees it. */
export interface Epoch extends LocalRank {
  readonly epoch: number;
  readonly rank: number;
  readonly worldSize: number;
  /** In ring order: index is rank. */
  readonly members: RosterEntry[];
  readonly job: JobSpec;
  /** The links of this epoch: to both ring neighbours, and to others on demand. */
  readonly mesh: Mesh;
  /** To the ring neighbours, by rank. */
  readonly links: ReadonlyMap<number, Link>;
  /** Aborted when the epoch ends before its run did. */
  readonly signal: AbortSignal;
  /** Tells the server this rank's state; resolves once all ranks told the same. */
  synced(step: number, stateHash: string): Promise<void>;
  /** Tells the server that the run is done; resolves once all ranks did, or at once where the server is gone. */
  finished(step: number, stateHash: string): Promise<void>;
}

export interface RendezvousOptions {
  server: string;
  /** The first message; the browser's id is added to it. */
  hello: Extract<ClientMessage, { type: 'create' | 'join' }>;
  connectPeer: PeerConnector;
  clock: Clock;
  onadmitted: (message: Extract<ServerMessage, { type: 'admitted' }>) => void;
  onroom: (message: Extract<ServerMessage, { type: 'room' }>) => void;
  onstate: (state: RankState, epoch: number, detail: string) => void;
  /** Runs an epoch from SYNCING on; a rejection ends the epoch for everybody. */
  onepoch: (epoch: Epoch) => Promise<void>;
  /** The epoch ended early; the member is still in the room. */
  onfailed: (error: Error) => void;
  /** The member is out of the room: refused, or the server is gone. */
  onfatal: (error: Error) => void;
}

interface ActiveEpoch {
  readonly epoch: number;
  readonly links: EpochLinks;
  readonly abort: AbortController;
  readonly sync: Deferred<void>;
  readonly go: Deferred<void>;
  readonly ended: Deferred<void>;
}

export class Rendezvous {
  readonly #options: RendezvousOptions;
  #client: SignalingClient | null = null;
  #state: RankState = 'OFFLINE';
  #member = '';
  #room = '';
  #iceServers: readonly IceServer[] = [];
  #active: ActiveEpoch | null = null;
  #isOver = false;

  constructor(options: RendezvousOptions) {
    this.#options = options;
  }

  /** Connects and asks for admission. What follows comes through the handlers. */
  async start(): Promise<void> {
    const { server, clock, hello } = this.#options;
    try {
      const browser = await browserId();
      this.#client = await SignalingClient.connect(server, clock, {
        onmessage: (message) => this.#receive(message),
        onclose: (error) => this.#lost(error),
      });
      if (this.#isOver) this.#client.close();
      else this.#client.send({ ...hello, browser });
    } catch (error) {
      this.#fatal(asError(error));
    }
  }

  /** Sends what the user decided: ready, configure, start. */
  send(message: Extract<ClientMessage, { type: 'ready' | 'configure' | 'start' }>): void {
    this.#client?.send(message);
  }

  /** Leaves the room. Idempotent. */
  leave(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#client?.send({ type: 'leave' });
    this.#client?.close();
    this.#cancel(new PeergradError('This tab left the room.'));
    this.#enter('OFFLINE', 0, 'not connected');
  }

  /** Once this member has left: resolves when the server knows it, or is gone. */
  async left(): Promise<void> {
    await this.#client?.closed;
  }

  #receive(message: ServerMessage): void {
    const active = this.#active;
    switch (message.type) {
      case 'admitted':
        this.#member = message.member;
        this.#room = message.room;
        this.#iceServers = message.iceServers;
        this.#client?.startHeartbeat(message.heartbeatMs);
        this.#options.onadmitted(message);
        return this.#enter('WAITING', 0, 'waiting for the run to start');
      case 'room':
        return this.#options.onroom(message);
      case 'heartbeat':
        return;
      case 'prepare':
        void this.#run(message);
        return;
      case 'sync':
        if (active?.epoch === message.epoch) active.sync.resolve();
        return;
      case 'go':
        if (active?.epoch === message.epoch) active.go.resolve();
        return;
      case 'signal':
        if (active?.epoch === message.epoch) active.links.signal(message);
        return;
      case 'ended':
        return this.#ended(message);
      case 'refused': {
        const error = new SignalingError(message.message, { room: this.#room });
        if (message.code === 'server-closing') return this.#lost(error);
        const stays = message.code === 'not-host' || message.code === 'not-now';
        return stays ? this.#options.onfailed(error) : this.#fatal(error);
      }
      default:
        message satisfies never;
    }
  }

  async #run({ epoch, members, job }: Extract<ServerMessage, { type: 'prepare' }>): Promise<void> {
    this.#cancel(new PeergradError(`Epoch ${epoch} began.`));
    const rank = members.findIndex(({ member }) => member === this.#member);
    if (rank < 0) return this.#fatal(new ProtocolError('The server began an epoch that this tab is no member of.'));
    const worldSize = members.length;
    const client = this.#client!;
    const epochLinks = new EpochLinks({
      ...{ room: this.#room, epoch, rank, members, iceServers: this.#iceServers },
      ...{ connectPeer: this.#options.connectPeer, server: client, clock: this.#options.clock },
      onlost: (error) => this.#report(active, error),
    });
    const active: ActiveEpoch = {
      ...{ epoch, links: epochLinks, abort: new AbortController() },
      ...{ sync: deferred(), go: deferred(), ended: deferred() },
    };
    this.#active = active;
    for (const { promise } of [active.sync, active.go, active.ended]) promise.catch(() => {});
    try {
      const { length } = epochLinks.neighbours;
      this.#enter('LINKING', epoch, `connecting to ${length === 1 ? 'the other rank' : 'both neighbours'}`);
      const { mesh, links } = await epochLinks.open();
      client.send({ type: 'linked', epoch });
      await this.#verdict(active.sync.promise);
      this.#enter('SYNCING', epoch, 'loading the job and comparing states');
      await this.#options.onepoch({
        ...{ epoch, rank, worldSize, members, job, mesh, links },
        ...localRankOf(rank, members),
        signal: active.abort.signal,
        synced: async (step, stateHash) => {
          client.send({ type: 'synced', epoch, step, stateHash });
          await this.#verdict(active.go.promise);
          this.#enter('RUNNING', epoch, 'training');
        },
        finished: async (step, stateHash) => {
          if (!client.isOpen) return;
          client.send({ type: 'finished', epoch, step, stateHash });
          await this.#verdict(active.ended.promise);
        },
      });
      // The run is done, and nobody is there to end the epoch.
      if (this.#active === active && !client.isOpen) {
        this.#options.clock.after(FAREWELL_MS, () => this.#fatal(new SignalingError(SERVER_AWAY)));
      }
    } catch (error) {
      this.#report(active, error);
    }
  }

  /** The server has deadlines of its own; this one is for a server that has stopped without closing the connection. */
  #verdict(answer: Promise<void>): Promise<void> {
    return within(
      this.#options.clock,
      SERVER_TIMEOUT_MS,
      answer,
      () => new SignalingError(`The signaling server said nothing for ${SERVER_TIMEOUT_MS / 1000} s.`),
    );
  }

  /** This rank cannot go on in `active`: tells the server, which ends the epoch for all and says why. */
  #report(active: ActiveEpoch, error: unknown): void {
    if (this.#active !== active || active.abort.signal.aborted) return;
    const failure = asError(error);
    const tell = (): void => {
      if (this.#active !== active) return;
      if (!this.#client?.isOpen) return this.#fatal(failure);
      this.#client.send({ type: 'failed', epoch: active.epoch, message: failure.message.slice(0, 1000) });
    };
    if (failure instanceof PeerGoneError) this.#options.clock.after(VERDICT_GRACE_MS, tell);
    else tell();
  }

  #ended({ epoch, outcome, message }: Extract<ServerMessage, { type: 'ended' }>): void {
    const active = this.#active;
    if (active?.epoch !== epoch) return;
    if (outcome === 'finished') {
      active.ended.resolve();
      this.#cancel(new PeergradError(message));
      return this.#enter('WAITING', epoch, message);
    }
    const error = new PeergradError(message, { room: this.#room, epoch });
    this.#cancel(error);
    this.#options.onfailed(error);
    this.#enter('WAITING', epoch, message);
  }

  /** The server is gone. A running ring needs none: only what comes after it does. */
  #lost(error: SignalingError): void {
    if (this.#isOver) return;
    const active = this.#active;
    if (this.#state !== 'RUNNING' || !active) return this.#fatal(error);
    active.ended.resolve();
    this.#enter('RUNNING', active.epoch, 'training; the signaling server is away, which only joining and leaving need');
  }

  #fatal(error: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#client?.close();
    this.#cancel(error);
    this.#options.onfatal(error);
    this.#enter('OFFLINE', 0, error.message);
  }

  /** Ends the active epoch here: every wait in it rejects with `reason`, its links close. */
  #cancel(reason: Error): void {
    const active = this.#active;
    if (!active) return;
    this.#active = null;
    active.abort.abort(reason);
    for (const wait of [active.sync, active.go, active.ended]) wait.reject(reason);
    active.links.close(reason);
  }

  #enter(state: RankState, epoch: number, detail: string): void {
    this.#state = state;
    this.#options.onstate(state, epoch, detail);
  }
}
