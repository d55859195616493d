/** Tests the library's way into a room, with the production server's rooms and no sockets. */
import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import {
  destroyProcessGroup,
  initProcessGroup,
  type InitProcessGroupOptions,
} from '../../src/library/initProcessGroup.ts';
import type { Clock } from '../../src/util/clock.ts';
import { AbortError } from '../../src/util/errors.ts';
import type { PeerConnector } from '../../src/engine/membership/linkAttempt.ts';
import { errorOf } from '../errorOf.ts';
import { SignalingWorld } from '../engine/signalingWorld.ts';

/** Connects tabs in memory, because Node has no WebRTC. */
const { connectPeer } = vi.hoisted(() => ({ connectPeer: vi.fn<PeerConnector>() }));
vi.mock('../../src/transport/peerLink.ts', () => ({ connectPeer }));

/** The time of the library is that of the server. */
const time = vi.hoisted(() => ({ clock: null as Clock | null }));
vi.mock('../../src/util/clock.ts', async (importOriginal) => ({
  ...(await importOriginal<object>()),
  systemClock: {
    now: () => time.clock!.now(),
    after: (ms: number, callback: () => void) => time.clock!.after(ms, callback),
  } satisfies Clock,
}));

let world: SignalingWorld;
/** Types of the messages that this rank has sent to the server. */
let sent: string[];

beforeEach(async () => {
  await tf.setBackend('cpu');
  world = new SignalingWorld();
  time.clock = world.clock;
  sent = [];
  const port = world.plug();
  connectPeer.mockImplementation(port.connectPeer);
  vi.stubGlobal('WebSocket', function open(url: URL) {
    const socket = port.openSocket(url);
    const send = socket.send.bind(socket);
    socket.send = (text) => {
      sent.push((JSON.parse(text as string) as { type: string }).type);
      send(text);
    };
    return socket;
  });
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
  const error = errorOf(initProcessGroup({ server: 'http://localhost', ...options })).finally(() => (isOver = true));
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

test('an AbortSignal that is aborted before opens no connection', async () => {
  const error = await outcome({ signal: AbortSignal.abort(), worldSize: 2 });
  expect(error).toBeInstanceOf(AbortError);
  expect(sent).toEqual([]);
});

test('an AbortSignal ends the wait for other ranks to destroy the group, which fails for them', async () => {
  const server = 'http://localhost';
  const groups: ProcessGroup[] = [];
  const join = async (options: Partial<InitProcessGroupOptions>): Promise<void> => {
    groups.push(await initProcessGroup({ server, transport: 'webrtc', ...options }));
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
