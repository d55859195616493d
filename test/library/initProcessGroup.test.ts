/** Tests the library's way into a room, with the production server's rooms and no sockets. */
import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { initProcessGroup } from '../../src/library/initProcessGroup.ts';
import { AbortError } from '../../src/util/errors.ts';
import { errorOf } from '../errorOf.ts';
import { SignalingWorld } from '../engine/signalingWorld.ts';

let world: SignalingWorld;
/** Types of the messages that this rank has sent to the server. */
let sent: string[];

beforeEach(async () => {
  await tf.setBackend('cpu');
  world = new SignalingWorld();
  sent = [];
  const port = world.plug();
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
