/**
 * `initProcessGroup` and `destroyProcessGroup`, as in torch.distributed, for programs without the
 * app. They run on a page, or in a worker that a page hosts.
 */
import { ProcessGroup } from '../collectives/processGroup.ts';
import { MAX_WORLD_SIZE } from '../protocol/scalars.ts';
import { PROTOCOL_VERSION } from '../protocol/control.ts';
import { DEFAULT_JOB, type TransportName } from '../spec/job.ts';
import { parseRoomCode } from '../protocol/roomCode.ts';
import { connectTab } from '../transport/tabLink.ts';
import { systemClock } from '../util/clock.ts';
import { unlessAborted, within } from '../util/deadline.ts';
import { deferred, type Deferred } from '../util/deferred.ts';
import {
  AbortError,
  messageOf,
  PeerGoneError,
  reasonOf,
  RunOverError,
  TimeoutError,
  UsageError,
} from '../util/errors.ts';
import { browserId } from '../engine/membership/browserId.ts';
import type { StateReport } from '../engine/membership/membership.ts';
import { Rendezvous } from '../engine/membership/rendezvous.ts';
import { prepareDevice, watchDevice, type DeviceChoice } from './device.ts';
import { thisPage } from './thisPage.ts';

/** Milliseconds for all ranks to join. The time is long because people open tabs by hand. */
const DEFAULT_INIT_TIMEOUT_MS = 30 * 60_000;
/**
 * The state that ranks report to the server. All ranks report the same state, because programs that
 * use the library compare their states themselves.
 */
const NO_STATE: StateReport = { step: 0, stateHash: 'library' };

export interface InitProcessGroupOptions {
  /** Address of the signaling server, `https://host:port`. */
  server: string;
  /** Code of the room to join. Without it, a new room is opened; `onroom` receives its code. */
  room?: string;
  /**
   * The number of ranks. A new room forms the group when this many ranks have joined. An existing
   * room refuses this rank if the room has another world size.
   */
  worldSize?: number;
  /** The requested rank, as with torch's `env://`. Default: any free rank. */
  rank?: number;
  /** The name that other members see. */
  name?: string;
  /** Called with the room's code when the room has admitted this rank. */
  onroom?: (room: string) => void;
  /** Milliseconds for all ranks to join. */
  timeoutMs?: number;
  /**
   * How tabs of one browser are linked. `auto` (the default): by a message port if the browser
   * supports it. `webrtc`: by WebRTC, like tabs of different browsers. All ranks must pass the same
   * value.
   */
  transport?: TransportName;
  /** Which device computes; see {@link DeviceChoice}. Default `auto`. */
  device?: DeviceChoice;
  /** Ends the wait for other ranks when it is aborted: this rank leaves the room. */
  signal?: AbortSignal;
}

interface Membership {
  /** Aborted when the generation ends on this rank. */
  signal: AbortSignal;
  /** Resolves when this rank no longer needs the group. */
  released: Deferred<void>;
  release: () => void;
  /** Resolves when no rank needs the group any more. */
  over: Deferred<void>;
  /** Leaves the room. Resolves when the server knows about it. */
  leave: () => Promise<void>;
}

const memberships = new WeakMap<ProcessGroup, Membership>();

/**
 * Joins or opens a room, and resolves with the process group when all its ranks are linked. There
 * is no default group, unlike in torch, because a page may have several groups. After all ranks
 * have destroyed a group, they can form another group in the same room. The server keeps an empty
 * room for a minute.
 *
 * @throws (rejects) UsageError if the code or the rank is invalid, a new room has no world size, or
 *   a worker's page does not call `hostWorker`.
 *   SignalingError if the server does not answer or refuses. TimeoutError if other ranks do not
 *   join in time. AbortError if the signal is aborted. This rank has then left the room.
 *
 * The group fails with a DeviceError when this rank's GPU is lost or refuses an operation.
 */
export async function initProcessGroup(options: InitProcessGroupOptions): Promise<ProcessGroup> {
  const {
    server,
    worldSize,
    rank,
    name = 'library',
    timeoutMs = DEFAULT_INIT_TIMEOUT_MS,
    transport = 'auto',
    device: choice = 'auto',
    signal: abort,
  } = options;
  const room = options.room === undefined ? null : parseRoomCode(options.room);
  if (options.room !== undefined && room === null)
    throw new UsageError(`"${options.room}" is not a room code. Pass a code such as K7F-3QX.`);
  if (room === null && worldSize === undefined)
    throw new UsageError('A new room needs a world size. Pass worldSize, or pass room to join an existing room.');
  checkWorld(worldSize, rank);
  const page = await thisPage();
  const device = await prepareDevice(choice);
  if (abort?.aborted) throw abortError(abort, 'not joined a group');
  const clock = systemClock;
  const joined = deferred<ProcessGroup>();
  const over = deferred();
  let formed: { group: ProcessGroup; membership: Membership } | null = null;
  const rendezvous: Rendezvous = new Rendezvous({
    server,
    clock,
    connectPeer: page.connectPeer,
    transport,
    browserId,
    today: Date.now,
    random: Math.random,
    openSocket: (url) => new WebSocket(url),
    connectTab: (attempt) => connectTab(page.askForPort, attempt),
    hello:
      room === null
        ? {
            type: 'create',
            version: PROTOCOL_VERSION,
            name,
            rank,
            job: DEFAULT_JOB,
            startAt: worldSize ?? null,
            nodes: null,
          }
        : { type: 'join', version: PROTOCOL_VERSION, name, rank, room, worldSize },
    onadmitted: (message) => {
      options.onroom?.(message.room);
      rendezvous.send({ type: 'ready', device, stateOfRun: null });
    },
    onroom: () => {},
    onstate: () => {},
    enter: (generation) => {
      const { mesh, localRank, localWorldSize, signal } = generation;
      const group = new ProcessGroup(mesh, { clock, localRank, localWorldSize });
      const gpu = watchDevice((error) => group.abort(error));
      const released = deferred();
      const release = (): void => {
        gpu.stop();
        group.destroy();
        released.resolve();
      };
      // The reason of `signal` says why the generation ended. A group has only one generation, so
      // this rank leaves the room.
      const end = (): void => {
        gpu.stop();
        group.abort(
          new PeerGoneError(messageOf(signal.reason), { rank: generation.rank, generation: generation.generation }),
        );
        released.resolve();
        void leave();
      };
      signal.addEventListener('abort', end, { once: true });
      formed = { group, membership: { signal, released, release, over, leave } };
      return Promise.resolve(NO_STATE);
    },
    train: async () => {
      const { group, membership } = formed!;
      memberships.set(group, membership);
      joined.resolve(group);
      await membership.released.promise;
      return NO_STATE;
    },
    scopeOf: () => 'run',
    onended: (_, message) => {
      over.resolve();
      joined.reject(new RunOverError(message));
    },
    onrefused: joined.reject,
    onfatal: (error) => {
      over.resolve();
      joined.reject(error);
    },
  });
  async function leave(): Promise<void> {
    page.leaving.removeEventListener('pagehide', onpagehide);
    rendezvous.leave();
    await rendezvous.left();
  }
  // A tab that is closed leaves the room first. Otherwise its neighbours would wait 6 s until their
  // browser notices.
  const onpagehide = (): void => {
    formed?.group.abort(new PeerGoneError(`Rank ${formed.group.rank} is gone: its page was closed.`));
    void leave();
  };
  page.leaving.addEventListener('pagehide', onpagehide);
  const onabort = (): void => joined.reject(abortError(abort!, 'not joined a group'));
  abort?.addEventListener('abort', onabort);
  try {
    await Promise.race([rendezvous.start(), joined.promise]);
    return await within(
      clock,
      timeoutMs,
      joined.promise,
      () =>
        new TimeoutError(
          `Timed out: not all ranks had joined after ${timeoutMs / 1000} s. Start the missing ranks, or pass a longer timeoutMs.`,
        ),
    );
  } catch (error) {
    await leave();
    throw error;
  } finally {
    abort?.removeEventListener('abort', onabort);
  }
}

function abortError({ reason }: AbortSignal, what: string): AbortError {
  return new AbortError(`Aborted: this rank has ${what}, because its signal was aborted: ${reasonOf(reason)}.`);
}

/**
 * Waits until every rank has called this function for the group, then leaves the group. No op may
 * be in flight when this is called.
 *
 * @param options `signal` ends the wait when it is aborted: this rank then leaves at once, and the
 *   group fails on ranks that still use it.
 * @throws (rejects) UsageError if initProcessGroup has not returned the group. AbortError when this
 *   rank has left because of the signal.
 */
export async function destroyProcessGroup(
  group: ProcessGroup,
  options: Pick<InitProcessGroupOptions, 'signal'> = {},
): Promise<void> {
  const membership = memberships.get(group);
  if (!membership)
    throw new UsageError(
      'This process group was not made by initProcessGroup, or was already destroyed. Destroy a group once, and only if initProcessGroup returned it.',
    );
  memberships.delete(group);
  const { signal, released, release, over, leave } = membership;
  released.resolve();
  const abort = options.signal;
  try {
    // A generation that ended early is over for all ranks, so there is nothing to wait for.
    if (!signal.aborted) await (abort ? unlessAborted(abort, over.promise) : over.promise);
  } catch {
    throw abortError(abort!, 'left the group before all other ranks');
  } finally {
    release();
    // Wait for the server, so that the rank is free if this page joins again at once.
    await leave();
  }
}

const isWhole = (value: number, min: number, max: number): boolean =>
  Number.isInteger(value) && value >= min && value <= max;

/** @throws UsageError */
function checkWorld(worldSize: number | undefined, rank: number | undefined): void {
  if (worldSize !== undefined && !isWhole(worldSize, 1, MAX_WORLD_SIZE)) {
    throw new UsageError(`The world size is ${worldSize}. Pass a whole number from 1 to ${MAX_WORLD_SIZE}.`);
  }
  const last = (worldSize ?? MAX_WORLD_SIZE) - 1;
  if (rank === undefined || isWhole(rank, 0, last)) return;
  const world = worldSize === undefined ? '' : ` in a world of ${worldSize}`;
  throw new UsageError(`There is no rank ${rank}${world}. Pass a rank from 0 to ${last}.`);
}
