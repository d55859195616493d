/** Tests the library's way into a room, with the production server's rooms and no sockets. */
import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { destroyProcessGroup, joinGroup, type InitProcessGroupOptions } from '../../src/library/initProcessGroup.ts';
import type { RoomSurroundings } from '../../src/library/room.ts';
import { AbortError } from '../../src/util/errors.ts';
import { errorOf } from '../errorOf.ts';
import { SignalingWorld, type Port } from '../engine/signalingWorld.ts';
import { ThreadActivity } from '../../src/util/activity.ts';

let world: SignalingWorld;
let surroundings: RoomSurroundings;
let port: Port;
/** Types of the messages that this rank has sent to the server. */
let sent: string[];

beforeEach(async () => {
  await tf.setBackend('cpu');
  world = new SignalingWorld();
  sent = [];
  port = world.plug();
  surroundings = {
    device: { backend: 'cpu', adapter: 'cpu' },
    leaving: new EventTarget(),
    clock: world.clock,
    activity: new ThreadActivity(world.clock),
    today: () => world.clock.now(),
    random: () => 0.5,
    browserId: () => Promise.resolve('the-only-browser'),
    connectPeer: port.connectPeer,
    connectTab: () => {
      throw new Error('These tabs are linked like tabs of different browsers.');
    },
    openSocket: (url) => {
      const socket = port.openSocket(url);
      const send = socket.send.bind(socket);
      socket.send = (text) => {
        sent.push((JSON.parse(text as string) as { type: string }).type);
        send(text);
      };
      return socket;
    },
  };
  vi.stubGlobal('addEventListener', () => {});
  vi.stubGlobal('removeEventListener', () => {});
});

afterEach(() => {
  vi.unstubAllGlobals();
  world.stopServer();
});

/** Calls initProcessGroup; time passes until it has ended. */
async function outcome(options: { signal: AbortSignal; worldSize: number; onroom?: () => void }): Promise<Error> {
  let isOver = false;
  const error = errorOf(
    joinGroup({ server: 'http://localhost', transport: 'webrtc', ...options }, surroundings),
  ).finally(() => (isOver = true));
  await world.until('initProcessGroup ends', () => isOver);
  return error;
}

test('an AbortSignal ends the wait for other ranks, and the rank leaves the room', async () => {
  const controller = new AbortController();
  const error = await outcome({
    signal: controller.signal,
    worldSize: 2,
    onroom: () => queueMicrotask(() => controller.abort(new Error('The user pressed Cancel.'))),
  });
  expect(error).toBeInstanceOf(AbortError);
  expect(error.message).toMatch(/^Aborted: this rank has not joined a group.*: The user pressed Cancel\.$/);
  expect(sent.filter((type) => type !== 'heartbeat')).toEqual(['create', 'ready', 'leave']);
});

test('an AbortSignal that is already aborted opens no connection', async () => {
  const error = await outcome({ signal: AbortSignal.abort(), worldSize: 2 });
  expect(error).toBeInstanceOf(AbortError);
  expect(sent).toEqual([]);
});

test('a group fails on every rank when the page of one rank is closed', async () => {
  const pages = [new EventTarget(), new EventTarget()] as const;
  const groups: ProcessGroup[] = [];
  const join = async (leaving: EventTarget, options: Partial<InitProcessGroupOptions>): Promise<void> => {
    const group = await joinGroup(
      { server: 'http://localhost', transport: 'webrtc', ...options },
      { ...surroundings, leaving },
    );
    groups[group.rank] = group;
  };
  void join(pages[0], { worldSize: 2, rank: 0, onroom: (room) => void join(pages[1], { room, rank: 1 }) });
  await world.until('both ranks have joined', () => groups.filter(Boolean).length === 2);
  pages[1].dispatchEvent(new Event('pagehide'));
  await world.until('both groups have failed', () => groups.every(({ failure }) => failure !== null));
  // Here the link closes before the other rank reads the reason.
  expect(groups.map(({ failure }) => String(failure))).toEqual([
    'PeerGoneError: Rank 0 lost its link to rank 1.',
    'PeerGoneError: Rank 1 is gone: its page was closed.',
  ]);
});

test('each rank learns how many ranks are present while the group forms', async () => {
  const seen: [number, number | null][] = [];
  const onmembers = (present: number, worldSize: number | null): void => void seen.push([present, worldSize]);
  const joined: Promise<ProcessGroup>[] = [];
  const join = (options: Partial<InitProcessGroupOptions>): void =>
    void joined.push(joinGroup({ server: 'http://localhost', transport: 'webrtc', ...options }, surroundings));
  join({ worldSize: 2, onmembers, onroom: (room) => join({ room }) });
  await world.until('both ranks have joined', () => seen.length === 2 && joined.length === 2);
  expect(seen).toEqual([
    [1, 2],
    [2, 2],
  ]);
  await Promise.all(joined);
});

test('an AbortSignal ends the wait of destroyProcessGroup for other ranks, and the group fails on these ranks', async () => {
  const server = 'http://localhost';
  const groups: ProcessGroup[] = [];
  const join = async (options: Partial<InitProcessGroupOptions>): Promise<void> => {
    groups.push(await joinGroup({ server, transport: 'webrtc', ...options }, surroundings));
  };
  const joined: Promise<void>[] = [];
  joined.push(join({ worldSize: 2, onroom: (room) => joined.push(join({ room })) }));
  await world.until('both ranks have joined', () => groups.length === 2);
  await Promise.all(joined);
  const [first, second] = groups;
  const controller = new AbortController();
  let isOver = false;
  const error = errorOf(destroyProcessGroup(first!, { signal: controller.signal })).finally(() => (isOver = true));
  controller.abort('The page is closed.');
  await world.until('the rank has left', () => isOver && second!.failure !== null);
  expect(await error).toBeInstanceOf(AbortError);
  expect((await error).message).toContain('left the group before all other ranks');
  expect((await second!.failed).message).toBe(second!.failure!.message);
});

test('destroyProcessGroup also ends on a rank that returns as a new member after the others have left', async () => {
  const other = world.plug();
  const groups: ProcessGroup[] = [];
  const join = async (options: Partial<InitProcessGroupOptions>, own: Partial<RoomSurroundings>): Promise<void> => {
    const group = await joinGroup(
      { server: 'http://localhost', transport: 'webrtc', ...options },
      { ...surroundings, ...own },
    );
    groups[group.rank] = group;
  };
  const { openSocket, connectPeer } = other;
  void join({ worldSize: 2, rank: 0, onroom: (room) => void join({ room, rank: 1 }, { openSocket, connectPeer }) }, {});
  await world.until('both ranks have joined', () => groups.filter(Boolean).length === 2);
  const over: number[] = [];
  const destroy = (rank: number): void => void destroyProcessGroup(groups[rank]!).then(() => over.push(rank));
  destroy(1);
  await world.pass(100);
  Object.assign(other, { isForgotten: true, isOffline: true });
  other.cutServer();
  await world.pass(3_000);
  destroy(0);
  await world.until('rank 0 has left', () => over.includes(0));
  other.isOffline = false;
  await world.until('rank 1 has left', () => over.includes(1));
  expect(over).toEqual([0, 1]);
});
