/**
 * A program's place in a room of the signaling server, without the app. The program runs on a page,
 * or in a worker that a page hosts.
 */
import type { RendezvousOptions } from '../engine/membership/rendezvousOptions.ts';
import { browserId } from '../engine/membership/browserId.ts';
import { createPulseSocketOpener } from '../engine/membership/pulseSocket.ts';
import { isCountedReady, type ReadyRank } from '../engine/membership/readyAnnouncer.ts';
import { Rendezvous } from '../engine/membership/rendezvous.ts';
import { PROTOCOL_VERSION, SIGNALING_PATH } from '../protocol/control.ts';
import type { ReportedDevice, NodeCountRange } from '../protocol/room.ts';
import { parseRoomCode } from '../protocol/roomCode.ts';
import { MAX_WORLD_SIZE } from '../protocol/scalars.ts';
import { SERVER_LINK_PATH } from '../protocol/serverLink.ts';
import { DEFAULT_JOB } from '../spec/job.ts';
import { connectThroughServer } from '../transport/serverLink.ts';
import { connectTab } from '../transport/tabLink.ts';
import { ThreadActivity } from '../util/activity.ts';
import { systemClock } from '../util/clock.ts';
import type { Deferred } from '../util/deferred.ts';
import { AbortError, PeerGoneError, errorReasonOf, SignalingError, UsageError } from '../util/errors.ts';
import { prepareDevice, type DeviceChoice } from './device.ts';
import type { ProgramPageAccess } from './page.ts';
import { completeFromPageAddress } from './pageRoom.ts';
import type { LocatedRoom, RoomOptions } from './roomOptions.ts';
import { thisPage } from './thisPage.ts';

/** Everything that a room needs from its program. Tests pass a clock and a network of their own. */
export interface RoomSurroundings
  extends
    Pick<
      RendezvousOptions,
      | 'clock'
      | 'activity'
      | 'today'
      | 'random'
      | 'browserId'
      | 'openSocket'
      | 'connectPeer'
      | 'connectTab'
      | 'connectServer'
    >,
    Pick<ProgramPageAccess, 'leaving'> {
  /** The device that TensorFlow.js uses. */
  device: ReportedDevice;
}

/**
 * Opens the device and finds the page of this program.
 *
 * @throws (rejects) UsageError in a worker whose page does not call `hostWorker`.
 */
export async function openRoomSurroundings(choice: DeviceChoice = 'auto'): Promise<RoomSurroundings> {
  const { connectPeer, requestTabPort, leaving } = await thisPage();
  const activity = new ThreadActivity(systemClock);
  return {
    clock: systemClock,
    today: Date.now,
    random: Math.random,
    browserId,
    activity,
    openSocket: createPulseSocketOpener(activity, systemClock),
    connectPeer,
    connectTab: (attempt) => connectTab(requestTabPort, attempt),
    connectServer: (attempt) => connectThroughServer({ ...attempt, openSocket: (url) => new WebSocket(url), crypto }),
    leaving,
    device: await prepareDevice(choice),
  };
}

/**
 * Completes options with the server and the room that the page's address names.
 *
 * @throws (rejects) UsageError if neither the options nor a page name a server; the errors of
 *   {@link checkSignalingServer} if the server is that of the page.
 */
export async function locateRoom<T extends RoomOptions>(options: T): Promise<T & LocatedRoom> {
  const page = await thisPage();
  const located = completeFromPageAddress(options, page);
  // Servers of other origins are not checked, because a page cannot read their answers.
  if (new URL(located.server).origin === page.address?.origin) await checkSignalingServer(located.server);
  return located;
}

/** Milliseconds for which {@link checkSignalingServer} waits for an answer. */
const CHECK_MS = 5000;

/**
 * Checks that a page's web server is a signaling server, or forwards to one. Vite and other web
 * servers do not answer requests for a WebSocket that they do not serve, so an attempt to open one
 * would only time out.
 *
 * @throws (rejects) UsageError if the web server is no signaling server and does not forward to
 *   one; SignalingError if the server to which it forwards does not answer.
 */
export async function checkSignalingServer(server: string, request: typeof fetch = fetch): Promise<void> {
  const url = new URL(SIGNALING_PATH, server);
  // If the request fails, the first attempt to connect reports the failure.
  const answer = await request(url, { method: 'HEAD', signal: AbortSignal.timeout(CHECK_MS) }).catch(() => null);
  if (answer === null || answer.status === 204) return;
  if (answer.ok) {
    throw new UsageError(
      `The web server of this page, ${url.origin}, is no signaling server, and does not forward ${SIGNALING_PATH} and ${SERVER_LINK_PATH} to one. ` +
        'Start one by `npx peergrad-cli serve`, and pass its address as server, such as http://localhost:8080.',
    );
  }
  if (answer.status < 500) return;
  throw new SignalingError(
    `The signaling server to which ${url.origin} forwards ${SIGNALING_PATH} does not answer (status ${answer.status}). ` +
      'Start it by `npx peergrad-cli serve`, and check the address in the settings of the web server.',
  );
}

/** Functions and options that the user of a {@link LibraryRoom} passes. */
interface RoomHandlers extends Pick<
  RendezvousOptions,
  'enter' | 'train' | 'feed' | 'scopeOf' | 'onended' | 'onrefused' | 'onfatal'
> {
  /** The run whose state this rank has; see the control message `ready`. */
  stateOfRun: () => number | null;
  /**
   * Whether this rank is a newcomer that should receive the state of the run before it is ready,
   * because the state is large.
   */
  canCatchUp?: () => boolean;
  /** Called when the page is being closed, before this rank leaves. */
  onpagehide?: () => void;
  onroom?: RendezvousOptions['onroom'];
}

export class LibraryRoom {
  readonly #rendezvous: Rendezvous;
  readonly #handlers: RoomHandlers;
  readonly #signal: AbortSignal | undefined;
  readonly #surroundings: Pick<RoomSurroundings, 'device' | 'leaving'>;
  // Leaves the room when the tab is closed. Without this, its neighbours would wait 6 s until their
  // browsers notice that the tab is gone.
  readonly #onpagehide = (): void => {
    this.#handlers.onpagehide?.();
    void this.leave();
  };

  /**
   * @param nodes smallest and largest number of ranks in a new room; `null` if the number of ranks
   *   is fixed.
   * @param startAt the run of a new room begins by itself when this number of ranks has joined.
   * @throws UsageError if the code, the rank or a world size is invalid, or a new room has no world
   *   size.
   */
  constructor(
    options: LocatedRoom,
    { nodes, startAt }: { nodes: NodeCountRange | null; startAt: number | undefined },
    handlers: RoomHandlers,
    { device, leaving, ...network }: RoomSurroundings,
  ) {
    const { server, worldSize, rank, name = 'library', transport = 'auto', signal } = options;
    const room = options.room === undefined ? null : parseRoomCode(options.room);
    if (options.room !== undefined && room === null)
      throw new UsageError(`"${options.room}" is not a room code. Pass a code such as K7F-3QX.`);
    if (room === null && startAt === undefined)
      throw new UsageError('A new room needs a world size. Pass worldSize, or pass room to join an existing room.');
    checkWorld(worldSize, rank);
    this.#handlers = handlers;
    this.#signal = signal;
    this.#surroundings = { device, leaving };
    const hello = { version: PROTOCOL_VERSION, name, rank } as const;
    let present = 0;
    let self = '';
    let wasCounted = false;
    this.#rendezvous = new Rendezvous({
      ...network,
      server,
      transport,
      hello:
        room === null
          ? { type: 'create', ...hello, job: DEFAULT_JOB, startAt: startAt ?? null, nodes }
          : { type: 'join', ...hello, room, worldSize },
      ...handlers,
      onadmitted: (message) => {
        options.onroom?.(message.room);
        self = message.member;
        wasCounted = false;
        this.#rendezvous.announce(this.#readyRank(handlers.canCatchUp?.() ?? false));
      },
      onroom: (message) => {
        handlers.onroom?.(message);
        const { length } = message.members;
        if (length !== present) options.onmembers?.(length, message.startAt);
        present = length;
        const counts = isCountedReady(message, self);
        // The server no longer counts this rank as ready, for example because the rank was late.
        // Before the rank announces itself again, it ends its earlier work, because this work would
        // delay other ranks.
        if (wasCounted && !counts) this.#rendezvous.announceWhenFreed(() => this.#readyRank(false));
        wasCounted = counts;
      },
      onstate: () => {},
    });
  }

  /**
   * Enters the room and settles like `outcome`. If `outcome` rejects, this rank first leaves the
   * room. When the signal is aborted, `outcome` is rejected.
   *
   * @param unfinished the end of "this rank has ..." in the message of the AbortError.
   */
  async enter<T>(outcome: Deferred<T>, unfinished: string): Promise<T> {
    // `outcome` may reject before it is awaited. This must not count as an unhandled rejection.
    outcome.promise.catch(() => {});
    const signal = this.#signal;
    const onabort = (): void => outcome.reject(signalAbortError(signal!, unfinished));
    if (signal?.aborted) throw signalAbortError(signal, unfinished);
    signal?.addEventListener('abort', onabort);
    this.#surroundings.leaving.addEventListener('pagehide', this.#onpagehide);
    try {
      await Promise.race([this.#rendezvous.start(), outcome.promise]);
      return await outcome.promise;
    } catch (error) {
      await this.leave();
      throw error;
    } finally {
      signal?.removeEventListener('abort', onabort);
    }
  }

  /** Leaves the room. Resolves when the server knows that this rank has left. */
  async leave(): Promise<void> {
    this.#surroundings.leaving.removeEventListener('pagehide', this.#onpagehide);
    this.#rendezvous.leave();
    await this.#rendezvous.left();
  }

  #readyRank(isBehind: boolean): ReadyRank {
    const { device } = this.#surroundings;
    return { device, stateOfRun: this.#handlers.stateOfRun(), isBehind };
  }
}

export function signalAbortError({ reason }: AbortSignal, what: string): AbortError {
  return new AbortError(`Aborted: this rank has ${what}, because its signal was aborted: ${errorReasonOf(reason)}.`);
}

/**
 * Returns the error with which a group fails on all ranks when the page of its rank `rank` is
 * closed.
 */
export function pageClosedError(rank: number): PeerGoneError {
  return new PeerGoneError(`Rank ${rank} is gone: its page was closed.`);
}

/** @throws UsageError if `worldSize` is not a possible number of ranks. */
export function checkWorldSize(name: string, worldSize: number): void {
  if (isWhole(worldSize, 1, MAX_WORLD_SIZE)) return;
  throw new UsageError(`${name} is ${worldSize}. Pass a whole number from 1 to ${MAX_WORLD_SIZE}.`);
}

/** @throws UsageError */
function checkWorld(worldSize: number | undefined, rank: number | undefined): void {
  if (worldSize !== undefined) checkWorldSize('The world size', worldSize);
  const last = (worldSize ?? MAX_WORLD_SIZE) - 1;
  if (rank === undefined || isWhole(rank, 0, last)) return;
  const world = worldSize === undefined ? '' : ` in a world of ${worldSize}`;
  throw new UsageError(`There is no rank ${rank}${world}. Pass a rank from 0 to ${last}.`);
}

const isWhole = (value: number, min: number, max: number): boolean =>
  Number.isInteger(value) && value >= min && value <= max;
