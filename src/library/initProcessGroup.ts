/**
 * A process group for programs of one's own: `initProcessGroup` and `destroyProcessGroup` as in
 * torch.distributed. Runs on a page's main thread, where WebRTC is, without our app and without a
 * worker.
 */
import * as tf from '@tensorflow/tfjs';
import { ProcessGroup } from '../collectives/processGroup.ts';
import { Device } from '../protocol/room.ts';
import { MAX_WORLD_SIZE } from '../protocol/scalars.ts';
import { PROTOCOL_VERSION } from '../protocol/control.ts';
import { DEFAULT_JOB, type TransportName } from '../spec/job.ts';
import { parseRoomCode } from '../protocol/roomCode.ts';
import { askForPort } from '../transport/broker.ts';
import { connectPeer } from '../transport/peerLink.ts';
import { connectTab } from '../transport/tabLink.ts';
import { systemClock } from '../util/clock.ts';
import { within } from '../util/deadline.ts';
import { deferred, type Deferred } from '../util/deferred.ts';
import { messageOf, PeerGoneError, RunOverError, TimeoutError, UsageError } from '../util/errors.ts';
import { browserId } from '../engine/membership/browserId.ts';
import type { StateReport } from '../engine/membership/membership.ts';
import { Rendezvous } from '../engine/membership/rendezvous.ts';

/** How long the other ranks may take to come: people open tabs by hand. */
const DEFAULT_INIT_TIMEOUT_MS = 30 * 60_000;
/** What ranks of a library world tell the server as their state: it is theirs to compare. */
const NO_STATE: StateReport = { step: 0, stateHash: 'library' };

export interface InitProcessGroupOptions {
  /** Address of the signaling server, `https://host:port`. */
  server: string;
  /** Code of the room to join; without one, a new room is opened, and `onroom` tells its code. */
  room?: string;
  /**
   * Opening a room: the group forms once this many ranks are there. Joining one: the world size
   * counted on; a room of another one refuses.
   */
  worldSize?: number;
  /** The rank to have, as with torch's env://; by default any that nobody asks for. */
  rank?: number;
  /** Shown to the others. */
  name?: string;
  /** Called with the room's code once admitted. */
  onroom?: (room: string) => void;
  /** Milliseconds for the whole world to come together. */
  timeoutMs?: number;
  /**
   * How ranks in tabs of one browser are linked: `auto`, the default, over a message port where the
   * browser has one between tabs; `webrtc` as ranks of different browsers are. To be the same on
   * all ranks.
   */
  transport?: TransportName;
}

interface Membership {
  /** Aborted when the generation ends early. */
  signal: AbortSignal;
  /** Resolves once this rank is done with the group. */
  released: Deferred<void>;
  release: () => void;
  /** Resolves once all are. */
  over: Deferred<void>;
  /** Leaves the room; resolves once the server knows. */
  leave: () => Promise<void>;
}

const memberships = new WeakMap<ProcessGroup, Membership>();

/**
 * Joins (or opens) a room and resolves with the process group once its whole world is linked. There
 * is no default group, as torch has one: a page may hold several at once. A room whose group has
 * been destroyed on all ranks forms another when they come back; the server keeps it for a minute.
 *
 * @throws (rejects) UsageError for a bad code, a rank that cannot be or a room without a world
 *   size, SignalingError where the server is not there or refuses, TimeoutError where the others do
 *   not come.
 */
export async function initProcessGroup(options: InitProcessGroupOptions): Promise<ProcessGroup> {
  const {
    server,
    worldSize,
    rank,
    name = 'library',
    timeoutMs = DEFAULT_INIT_TIMEOUT_MS,
    transport = 'auto',
  } = options;
  const room = options.room === undefined ? null : parseRoomCode(options.room);
  if (options.room !== undefined && room === null) throw new UsageError(`"${options.room}" is not a room code.`);
  if (room === null && worldSize === undefined) throw new UsageError('Opening a room needs a worldSize.');
  checkWorld(worldSize, rank);
  await tf.ready();
  const clock = systemClock;
  const joined = deferred<ProcessGroup>();
  const over = deferred();
  let formed: { group: ProcessGroup; membership: Membership } | null = null;
  const rendezvous: Rendezvous = new Rendezvous({
    ...{ server, clock, connectPeer, transport, browserId },
    random: Math.random,
    openSocket: (url) => new WebSocket(url),
    connectTab: (wish) => connectTab(askForPort, wish),
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
      rendezvous.send({ type: 'ready', device: tensorflowDevice(), stateOfRun: null });
    },
    onroom: () => {},
    onstate: () => {},
    enter: (generation) => {
      const { mesh, localRank, localWorldSize, signal } = generation;
      const group = new ProcessGroup(mesh, { clock, localRank, localWorldSize });
      const released = deferred();
      const release = (): void => {
        group.destroy();
        released.resolve();
      };
      // The others hear of it from the server, with the same sentence. A group has one generation:
      // nothing is left to stay for.
      const end = (): void => {
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
    globalThis.removeEventListener('pagehide', onpagehide);
    rendezvous.leave();
    await rendezvous.left();
  }
  // A closed tab's neighbours would otherwise wait 6 s for the browser to notice.
  const onpagehide = (): void => void leave();
  globalThis.addEventListener('pagehide', onpagehide);
  try {
    await rendezvous.start();
    return await within(
      clock,
      timeoutMs,
      joined.promise,
      () => new TimeoutError(`Timed out: not all ranks had come after ${timeoutMs / 1000} s.`),
    );
  } catch (error) {
    await leave();
    throw error;
  }
}

/** Leaves the group once every rank is done with it. Ops must not be in flight. */
export async function destroyProcessGroup(group: ProcessGroup): Promise<void> {
  const membership = memberships.get(group);
  if (!membership)
    throw new UsageError('This process group was not made by initProcessGroup, or is destroyed already.');
  memberships.delete(group);
  const { signal, released, release, over, leave } = membership;
  released.resolve();
  // A generation that has ended early is over for everyone: nobody is left to wait for.
  if (!signal.aborted) await over.promise;
  release();
  // Awaited, so that this rank cannot find its own place taken when it comes back at once.
  await leave();
}

const isWhole = (value: number, min: number, max: number): boolean =>
  Number.isInteger(value) && value >= min && value <= max;

/** @throws UsageError */
function checkWorld(worldSize: number | undefined, rank: number | undefined): void {
  if (worldSize !== undefined && !isWhole(worldSize, 1, MAX_WORLD_SIZE)) {
    throw new UsageError(`A world size is a whole number from 1 to ${MAX_WORLD_SIZE}, not ${worldSize}.`);
  }
  const ranks = worldSize ?? MAX_WORLD_SIZE;
  if (rank !== undefined && !isWhole(rank, 0, ranks - 1)) {
    throw new UsageError(`There is no rank ${rank} in a world of ${ranks}: ranks are 0 .. ${ranks - 1}.`);
  }
}

/** What TensorFlow.js computes on now, as the page has set it up. */
export function tensorflowDevice(): Device {
  const backend = tf.getBackend();
  const known = Device.entries.backend.options.find((one) => one === backend);
  return { backend: known ?? 'cpu', adapter: backend };
}
