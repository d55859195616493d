/** A member connects to a real server over real WebSockets. The test controls the time. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import type { RendezvousOptions } from '../../../src/engine/membership/rendezvousOptions.ts';
import { Rendezvous } from '../../../src/engine/membership/rendezvous.ts';
import type { SignalingSocket } from '../../../src/engine/membership/signalingClient.ts';
import { PROTOCOL_VERSION, type ServerMessage } from '../../../src/protocol/control.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import { startSignaling } from '../../../signaling/index.ts';
import { ManualClock } from '../../manualClock.ts';
import { ThreadActivity } from '../../../src/util/activity.ts';

const HOUR_MS = 60 * 60 * 1000;
const SECRET = 'a secret of the server';

const open: (() => Promise<void> | void)[] = [];
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] });
});
afterEach(async () => {
  while (open.length > 0) await open.pop()!();
  vi.useRealTimers();
});

const never = (what: string) => (): never => {
  throw new Error(`This test does not get to ${what}.`);
};

type Of<Type extends ServerMessage['type']> = Extract<ServerMessage, { type: Type }>;

/** A tab that opens a room and records the messages that it receives. */
function host(server: string, clock: ManualClock) {
  const heard = {
    admitted: [] as Of<'admitted'>[],
    rooms: [] as Of<'room'>[],
    keys: [] as string[],
    fatal: [] as Error[],
  };
  const options: RendezvousOptions = {
    ...{ server, clock, today: () => clock.now(), random: () => 0, browserId: () => Promise.resolve('b'.repeat(16)) },
    activity: new ThreadActivity(clock),
    openSocket: (url) => new WebSocket(url) as SignalingSocket,
    hello: { type: 'create', version: PROTOCOL_VERSION, name: 'Ada', job: DEFAULT_JOB, startAt: null, nodes: null },
    ...{ connectPeer: never('links'), connectTab: never('links') },
    ...{ enter: never('a generation'), train: never('a run'), scopeOf: never('failures') },
    ...{ onstate: () => {}, onended: () => {}, onrefused: () => {} },
    onadmitted: (message) => heard.admitted.push(message),
    onhostkey: (_, key) => heard.keys.push(key),
    onroom: (message) => heard.rooms.push(message),
    onfatal: (error) => heard.fatal.push(error),
  };
  const rendezvous = new Rendezvous(options);
  open.push(() => rendezvous.leave());
  return { rendezvous, heard };
}

test('a host that has been present for more than a day is still host after the server restarts', async () => {
  const clock = new ManualClock();
  const server = await startSignaling({ logLevel: 'silent', secret: SECRET });
  open.push(() => server.close());
  const { rendezvous, heard } = host(server.url, clock);
  await rendezvous.start();
  await expect.poll(() => heard.rooms.length, { interval: 5 }).toBe(1);
  const [{ member, room, heartbeatMs }] = heard.admitted as [Of<'admitted'>];
  for (let half = 1; half <= 2; half++) {
    vi.advanceTimersByTime(12.5 * HOUR_MS);
    clock.advance(heartbeatMs);
    await expect.poll(() => heard.keys.length, { interval: 5 }).toBe(half);
  }
  await server.close();
  const restarted = await startSignaling({ logLevel: 'silent', secret: SECRET, port: server.port });
  open.push(() => restarted.close());
  // Nothing is sent before the wait for the reconnection has passed.
  clock.advance(1_000);
  await expect.poll(() => heard.admitted.length + heard.fatal.length, { interval: 5 }).toBe(2);
  expect(heard.fatal).toEqual([]);
  expect(heard.admitted[1]).toMatchObject({ member, room });
  expect(heard.admitted[1]!.hostKey).not.toBeNull();
  await expect.poll(() => heard.rooms.at(-1)?.hosts, { interval: 5 }).toEqual([member]);
});
