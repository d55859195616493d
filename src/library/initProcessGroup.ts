/**
 * `initProcessGroup` and `destroyProcessGroup`, as in torch.distributed, for programs without the
 * app. They run on a page, or in a worker that a page hosts.
 */
import { ProcessGroup } from '../collectives/processGroup.ts';
import type { RankStateReport } from '../engine/membership/membership.ts';
import { unlessAborted } from '../util/deadline.ts';
import { createDeferred, type Deferred } from '../util/deferred.ts';
import { errorMessageOf, PeerGoneError, RunOverError, TimeoutError, UsageError } from '../util/errors.ts';
import { watchCurrentGpu } from './device.ts';
import {
  signalAbortError,
  LibraryRoom,
  locateRoom,
  openRoomSurroundings,
  pageClosedError,
  type RoomSurroundings,
} from './room.ts';
import type { LocatedRoom, RoomOptions } from './roomOptions.ts';

/**
 * Default time in milliseconds in which all ranks must join. It is long because people open tabs by
 * hand.
 */
export const DEFAULT_INIT_TIMEOUT_MS = 30 * 60_000;
/**
 * The state that ranks report to the server. All ranks report the same state, because programs that
 * use the library compare their states themselves.
 */
const NO_STATE: RankStateReport = { step: 0, stateHash: 'library' };

export interface InitProcessGroupOptions extends RoomOptions {
  /** Time in milliseconds in which all ranks must join. Default 30 min. */
  timeoutMs?: number;
}

interface Membership {
  /** Aborted when the generation ends on this rank. */
  signal: AbortSignal;
  /** Resolves when this rank no longer needs the group. */
  released: Deferred<void>;
  release: () => void;
  /** Resolves when no rank needs the group any more. */
  over: Deferred<void>;
  /** Leaves the room. Resolves when the server knows that this rank has left. */
  leave: () => Promise<void>;
}

const memberships = new WeakMap<ProcessGroup, Membership>();

/**
 * Joins or opens a room, and resolves with the process group when all its ranks are linked. There
 * is no default group, unlike in torch, because a page may have several groups. After all ranks
 * have destroyed a group, they can form another group in the same room. The server keeps an empty
 * room for a minute.
 *
 * @throws (rejects) UsageError if the code or the rank is invalid, a new room has no world size, no
 *   server is given or known, or a worker's page does not call `hostWorker`. SignalingError if the
 *   server does not answer or refuses. TimeoutError if other ranks do not join in time. AbortError
 *   if the signal is aborted. This rank has then left the room.
 *
 * The group fails with a DeviceError when this rank's GPU is lost or refuses an operation.
 *
 * @example
 * ```ts
 * const group = await initProcessGroup({ server: location.origin, room: 'K7F-3QX' });
 * console.log(`rank ${group.rank} of ${group.worldSize}`);
 * await destroyProcessGroup(group);
 * ```
 */
export async function initProcessGroup(options: InitProcessGroupOptions): Promise<ProcessGroup> {
  return joinGroup(await locateRoom(options), await openRoomSurroundings(options.device));
}

/** Does the work of {@link initProcessGroup}. Tests pass `surroundings` of their own. */
export async function joinGroup(
  options: InitProcessGroupOptions & LocatedRoom,
  surroundings: RoomSurroundings,
): Promise<ProcessGroup> {
  const { worldSize, timeoutMs = DEFAULT_INIT_TIMEOUT_MS } = options;
  const { clock } = surroundings;
  const joined = createDeferred<ProcessGroup>();
  const over = createDeferred();
  let formed: { group: ProcessGroup; membership: Membership } | null = null;
  const room = new LibraryRoom(
    options,
    { nodes: null, startAt: worldSize },
    {
      stateOfRun: () => null,
      onpagehide: () => {
        const { group } = formed ?? {};
        group?.abort(pageClosedError(group.rank));
      },
      enter: (generation) => {
        const { mesh, localRank, localWorldSize, activityOf, signal } = generation;
        const group = new ProcessGroup(mesh, { clock, localRank, localWorldSize, activityOf });
        const gpu = watchCurrentGpu((error) => group.abort(error));
        const released = createDeferred();
        const release = (): void => {
          gpu.stop();
          group.destroy();
          released.resolve();
        };
        // The reason of `signal` says why the generation ended. A group has only one generation, so
        // this rank leaves the room.
        const end = (): void => {
          gpu.stop();
          const { rank, generation: number } = generation;
          const error = new PeerGoneError(errorMessageOf(signal.reason), { rank, generation: number });
          group.abort(error);
          released.resolve();
          // This is needed if the rank has reconnected as a new member, because it then receives no
          // more messages about its old run.
          over.resolve();
          void room.leave().then(() => joined.reject(error));
        };
        signal.addEventListener('abort', end, { once: true });
        formed = { group, membership: { signal, released, release, over, leave: () => room.leave() } };
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
      onended: ({ message }) => {
        over.resolve();
        joined.reject(new RunOverError(message));
      },
      onrefused: joined.reject,
      onfatal: (error) => {
        over.resolve();
        joined.reject(error);
      },
    },
    surroundings,
  );
  const expired = (): void =>
    joined.reject(
      new TimeoutError(
        `Timed out: not all ranks had joined after ${timeoutMs / 1000} s. Start the missing ranks, or pass a longer timeoutMs.`,
      ),
    );
  const stopTimer = clock.after(timeoutMs, expired);
  try {
    return await room.enter(joined, 'not joined a group');
  } finally {
    stopTimer();
  }
}

/**
 * Waits until every rank has called this function for the group, then leaves the group. No op may
 * be in flight when this is called.
 *
 * @param options When `signal` is aborted, this rank stops waiting and leaves immediately. The
 *   group then fails on ranks that still use it.
 * @throws (rejects) UsageError if the group was not returned by initProcessGroup. AbortError if
 *   this rank has left because of the signal.
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
    throw signalAbortError(abort!, 'left the group before all other ranks');
  } finally {
    release();
    // This waits for the server, so that the number of this rank is free if the page joins again
    // immediately.
    await leave();
  }
}
