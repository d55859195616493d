/** Several signaling processes that serve the same rooms through one Redis server. */
import { createClient } from 'redis';
import { describe, expect, test } from 'vitest';
import { LoadGenerator } from '../../../bench/signaling/child.ts';
import type { ServerOptions, ServerReply } from '../../../bench/signaling/serverProcess.ts';
import { startSignaling, type SignalingOptions, type SignalingServer } from '../../../signaling/index.ts';
import { Credentials } from '../../../signaling/credentials.ts';
import { PROTOCOL_VERSION } from '../../../src/protocol/control.ts';
import type { RosterEntry, ReconnectReport } from '../../../src/protocol/room.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import { errorMessageOf } from '../../../src/util/errors.ts';
import { ManualClock } from '../../manualClock.ts';
import { CPU, create, enter, rooms, testServers, type TestMember } from '../helpers.ts';
import { hasRedis, RedisServer } from './redisServer.ts';

const SECRET = 'a secret of all processes';
const NODES = { min: 1, max: 8 };

const { onEnd, start: startServer, member } = testServers();

async function startRedis(): Promise<RedisServer> {
  const redis = await RedisServer.start();
  onEnd(() => redis.stop());
  return redis;
}

function start(redis: RedisServer, options: SignalingOptions = {}): Promise<SignalingServer> {
  return startServer({ redisUrl: redis.url, ...options });
}

/** Starts two processes that share a Redis server. */
async function two(options: SignalingOptions = {}) {
  const redis = await startRedis();
  const [one, other] = [await start(redis, options), await start(redis, options)];
  return { redis, one, other };
}

interface Joined {
  tab: TestMember;
  id: string;
  token: string;
}

async function joined(server: Pick<SignalingServer, 'url'>, room: string, name: string): Promise<Joined> {
  const tab = member(server);
  return { tab, ...(await enter(tab, room, name)) };
}

/**
 * Makes the tabs begin a generation, from `prepare` to `go`. Resolves with the `prepare` message.
 */
async function train(tabs: readonly TestMember[], worldSize = tabs.length) {
  const prepares = await Promise.all(tabs.map((tab) => tab.next('prepare', (m) => m.members.length === worldSize)));
  const { generation } = prepares[0]!;
  for (const tab of tabs) await tab.send({ type: 'linked', generation });
  for (const tab of tabs) await tab.next('sync', (m) => m.generation === generation);
  for (const tab of tabs) await tab.send({ type: 'synced', generation, step: 0, stateHash: 'x' });
  for (const tab of tabs) await tab.next('go', (m) => m.generation === generation);
  return prepares[0]!;
}

/** Returns the reconnect state of a rank that trains. */
function stateOf(generation: number, ring: RosterEntry[]): ReconnectReport {
  return {
    settings: { job: DEFAULT_JOB, startAt: null, nodes: NODES, isLocked: false, isPausedByHost: false },
    run: 1,
    isRunOn: true,
    generation,
    active: { generation, ring, isSteady: true },
  };
}

async function reconnect(
  server: Pick<SignalingServer, 'url'>,
  room: string,
  { id, token }: Pick<Joined, 'id' | 'token'>,
  reconnectState: ReconnectReport,
): Promise<TestMember> {
  const tab = member(server);
  await tab.send({
    type: 'reconnect',
    version: PROTOCOL_VERSION,
    name: 'back',
    room,
    member: id,
    token,
    reconnectState,
  });
  return tab;
}

/**
 * Reconnects again and again until it is admitted, as a tab does while no server knows the owner of
 * its room.
 */
async function reconnectUntilAdmitted(...args: Parameters<typeof reconnect>): Promise<TestMember> {
  for (;;) {
    const tab = await reconnect(...args);
    const answer = await Promise.race([tab.next('admitted'), tab.closed.then(() => null)]).catch(() => null);
    if (answer !== null) return tab;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/**
 * Advances the clock by one renewal of leases at a time, and waits each time for the answers of
 * Redis.
 */
async function pass(clock: ManualClock, ms: number, servers: readonly SignalingServer[]): Promise<void> {
  for (let passed = 0; passed < ms; passed += 2_000) {
    clock.advance(2_000);
    // The server looks up a wrong code in Redis. It gets the answer after the answers to all
    // earlier requests.
    for (const server of servers) {
      const stranger = member(server);
      await stranger.join('AAAAAA');
      await stranger.closed;
    }
  }
}

async function isReady(server: SignalingServer): Promise<boolean> {
  return (await fetch(`${server.url}/readyz`)).status === 200;
}

async function redisClient(redis: RedisServer) {
  const client = createClient({ url: redis.url });
  client.on('error', () => {});
  await client.connect();
  onEnd(() => client.destroy());
  return client;
}

describe.skipIf(!hasRedis)('two server processes', () => {
  test('serve one room, and members of both processes train a whole run', async () => {
    const { one, other } = await two();
    const room = await one.openRoom({ job: DEFAULT_JOB, startAt: 2 });
    const ada = await joined(one, room, 'Ada');
    const bo = await joined(other, room, 'Bo');
    const tabs = [ada.tab, bo.tab];
    const { generation, members } = await train(tabs);
    expect(members.map(({ name }) => name)).toEqual(['Ada', 'Bo']);
    const signal = { type: 'offer', sdp: 'v=0' } as const;
    await ada.tab.send({ type: 'signal', generation, to: bo.id, attempt: 1, signal });
    expect(await bo.tab.next('signal')).toEqual({ type: 'signal', generation, from: ada.id, attempt: 1, signal });
    await bo.tab.send({ type: 'signal', generation, to: ada.id, attempt: 2, signal });
    expect(await ada.tab.next('signal')).toEqual({ type: 'signal', generation, from: bo.id, attempt: 2, signal });
    for (const tab of tabs) await tab.send({ type: 'finished', generation, step: 9, stateHash: 'y' });
    for (const tab of tabs) expect(await tab.next('ended')).toMatchObject({ outcome: 'finished' });
    expect([await rooms(one), await rooms(other)]).toEqual([1, 0]);
    const metrics = await (await fetch(`${other.url}/metrics`)).text();
    expect(metrics).toMatch(/^peergrad_process_messages_total\{direction="sent"\} [1-9]/m);
    expect(metrics).toMatch(/^peergrad_process_messages_total\{direction="received"\} [1-9]/m);
  });

  test('let a member with the host key control a room that the other process owns, and drop the room when it is empty', async () => {
    const clock = new ManualClock();
    const { one, other } = await two({ clock });
    const ada = member(one);
    await ada.send(create());
    const { room, hostKey } = await ada.next('admitted');
    const cy = member(other);
    await cy.send({ type: 'join', version: PROTOCOL_VERSION, name: 'Cy', room, hostKey: hostKey! });
    const { member: cyId } = await cy.next('admitted');
    expect((await cy.next('room')).hosts).toContain(cyId);
    const bo = await joined(other, room, 'Bo');
    await bo.tab.send({ type: 'start' });
    expect(await bo.tab.next('refused')).toMatchObject({ code: 'not-host' });
    await cy.send({ type: 'remove', member: bo.id });
    expect(await bo.tab.next('refused')).toMatchObject({ code: 'removed' });
    expect(await bo.tab.closed).toBe(1008);
    await cy.send({ type: 'leave' });
    expect(await cy.closed).toBe(1000);
    await ada.next('room', (m) => m.members.length === 1);
    await ada.send({ type: 'leave' });
    await ada.closed;
    await pass(clock, 64_000, [one, other]);
    expect(await rooms(one)).toBe(0);
    const late = member(other);
    await late.join(room);
    expect((await late.next('refused')).code).toBe('no-room');
  });

  test('refuse a newcomer to a full room that the other process owns, and a newcomer with a wrong code', async () => {
    const { one, other } = await two({ limits: { roomCapacity: 1 } });
    const room = await one.openRoom({ job: DEFAULT_JOB, startAt: null });
    await joined(one, room, 'Ada');
    const late = member(other);
    await late.join(room);
    expect((await late.next('refused')).code).toBe('room-full');
    expect(await late.closed).toBe(1008);
    const lost = member(other);
    await lost.join('AAAAAA');
    expect((await lost.next('refused')).code).toBe('no-room');
  });

  test('deliver messages that a member sends while its process still looks for the room', async () => {
    const { one, other } = await two();
    const room = await one.openRoom({ job: DEFAULT_JOB, startAt: 2 });
    const ada = await joined(one, room, 'Ada');
    const bo = member(other);
    await bo.join(room, 'Bo');
    await bo.send({ type: 'ready', device: CPU, stateOfRun: null });
    await bo.send({ type: 'heartbeat' });
    expect((await train([ada.tab, bo])).members).toHaveLength(2);
  });

  test('let members of the relaying process leave the room, or reconnect through the owner of the room', async () => {
    const { one, other } = await two();
    const room = await one.openRoom({ job: DEFAULT_JOB, startAt: 3, nodes: NODES });
    const [ada, bo, cy] = [
      await joined(one, room, 'Ada'),
      await joined(other, room, 'Bo'),
      await joined(other, room, 'Cy'),
    ];
    const { generation, members } = await train([ada.tab, bo.tab, cy.tab]);
    bo.tab.socket.terminate();
    const again = await reconnect(one, room, bo, stateOf(generation, members));
    expect(await again.next('admitted')).toMatchObject({ member: bo.id });
    expect(await again.next('go')).toEqual({ type: 'go', generation });
    await cy.tab.send({ type: 'leave' });
    expect((await again.next('prepare')).members.map(({ member: id }) => id)).toEqual([ada.id, bo.id]);
    // The other process no longer relays for the old connection of this member.
    const gone = await reconnect(other, room, { id: bo.id, token: 'x'.repeat(40) }, stateOf(generation, members));
    expect((await gone.next('refused')).code).toBe('not-member');
  });

  test('let 30 members, connected to both processes, train together', async () => {
    const { one, other } = await two();
    const room = await one.openRoom({ job: DEFAULT_JOB, startAt: 30 });
    const all = await Promise.all(
      Array.from({ length: 30 }, (_, i) => joined(i % 2 === 0 ? one : other, room, `tab ${i}`)),
    );
    expect((await train(all.map(({ tab }) => tab))).members).toHaveLength(30);
  });

  test('do not open two rooms with the same code', async () => {
    const { one, other } = await two();
    expect(() => one.createRoom({ job: DEFAULT_JOB, startAt: null })).toThrow(/openRoom/);
    await one.openRoom({ job: DEFAULT_JOB, startAt: null, code: 'AAAAAA' });
    const taken = { job: DEFAULT_JOB, startAt: null, code: 'AAAAAA' };
    await expect(one.openRoom(taken)).rejects.toThrow('The room AAAAAA already exists.');
    await expect(other.openRoom(taken)).rejects.toThrow('The room AAAAAA already exists.');
  });

  test('both receive members of one room after a restart; one process restores and owns it, the other relays', async () => {
    const { one, other } = await two({ secret: SECRET });
    const credentials = new Credentials(SECRET);
    const ids = ['Ada-Ada-Ada', 'Bo-Bo-Bo-Bo', 'Cy-Cy-Cy-Cy', 'Di-Di-Di-Di'];
    const ring = ids.map((id, i) => ({ member: id, name: id, device: CPU, browser: i, rank: null }));
    const tabs = await Promise.all(
      ids.map((id, i) => {
        const proof = { id, token: credentials.tokenFor('AAAAAA', id) };
        return reconnect(i % 2 === 0 ? one : other, 'AAAAAA', proof, stateOf(7, ring));
      }),
    );
    for (const tab of tabs) expect(await tab.next('go')).toEqual({ type: 'go', generation: 7 });
    expect((await rooms(one)) + (await rooms(other))).toBe(1);
    const late = await joined(one, 'AAAAAA', 'Ed');
    // The generation is higher than 7 because members that know a later one may not have returned.
    expect((await train([...tabs, late.tab])).generation).toBeGreaterThan(7);
  });

  test('let members restore their room in the other process when the owner closes', async () => {
    const { one, other } = await two();
    const room = await one.openRoom({ job: DEFAULT_JOB, startAt: 2, nodes: NODES });
    const [ada, bo] = [await joined(one, room, 'Ada'), await joined(other, room, 'Bo')];
    const { generation, members } = await train([ada.tab, bo.tab]);
    await one.close();
    for (const { tab } of [ada, bo]) expect(await tab.closed).toBe(1012);
    const back = await Promise.all([ada, bo].map((who) => reconnect(other, room, who, stateOf(generation, members))));
    for (const tab of back) expect(await tab.next('go')).toEqual({ type: 'go', generation });
    expect(await rooms(other)).toBe(1);
  });

  test('let members return through the owner of the room when the relaying process closes', async () => {
    const { one, other } = await two();
    const room = await one.openRoom({ job: DEFAULT_JOB, startAt: 2 });
    const [ada, bo] = [await joined(one, room, 'Ada'), await joined(other, room, 'Bo')];
    const { generation, members } = await train([ada.tab, bo.tab]);
    await other.close();
    expect(await bo.tab.closed).toBe(1012);
    const back = await reconnect(one, room, bo, stateOf(generation, members));
    expect(await back.next('go')).toEqual({ type: 'go', generation });
    await back.send({ type: 'leave' });
    expect((await ada.tab.next('ended')).message).toMatch(/left while training/);
  });

  test('ignore invalid messages between processes', async () => {
    const { redis, one, other } = await two();
    const room = await one.openRoom({ job: DEFAULT_JOB, startAt: 2 });
    const bo = await joined(other, room, 'Bo');
    const client = await redisClient(redis);
    const channels = await client.pubSubChannels('peergrad:process:*');
    expect(channels).toHaveLength(2);
    const [from] = channels.map((channel) => channel.split(':')[2]);
    const odd = [
      '',
      '{',
      'null',
      '{"type":"enter"}',
      'x'.repeat(300_000),
      JSON.stringify({ type: 'dispatch', from, connection: 1, message: { type: 'leave' } }),
      JSON.stringify({ type: 'dispatch', from, connection: 99, message: { type: 'start' } }),
      JSON.stringify({ type: 'send', from: 'somebody-else.1', connections: [1], message: { type: 'heartbeat' } }),
      `${JSON.stringify({ type: 'frame', from, connection: 99 })}\nframe`,
      JSON.stringify({ type: 'taken', from, connection: 99, messages: 1 }),
      JSON.stringify({ type: 'unlink', from, connection: 99, code: 5, why: '' }),
      JSON.stringify({ type: 'left', from, room, member: 'somebody-else' }),
    ];
    for (const channel of channels) for (const text of odd) await client.publish(channel, text);
    const ada = await joined(one, room, 'Ada');
    await train([bo.tab, ada.tab]);
  });
});

describe.skipIf(!hasRedis)('the lease of a room in Redis', () => {
  test('can be taken by another process; the former owner then drops the room, and its members reconnect', async () => {
    const clock = new ManualClock();
    const { redis, one, other } = await two({ clock });
    const room = await one.openRoom({ job: DEFAULT_JOB, startAt: 2, nodes: NODES });
    const [ada, bo] = [await joined(one, room, 'Ada'), await joined(other, room, 'Bo')];
    const { generation, members } = await train([ada.tab, bo.tab]);
    const client = await redisClient(redis);
    const key = `peergrad:room:${room}`;
    await client.set(key, 'somebody-else.1');
    clock.advance(2_000);
    for (const { tab } of [ada, bo]) expect(await tab.closed).toBe(1012);
    expect(await rooms(one)).toBe(0);
    await client.del(key);
    const back = await Promise.all([ada, bo].map((who) => reconnect(other, room, who, stateOf(generation, members))));
    for (const tab of back) expect(await tab.next('go')).toEqual({ type: 'go', generation });
  });

  test('may expire while a newcomer waits; the newcomer may then retry, and its code does not count as wrong', async () => {
    const redis = await startRedis();
    const server = await start(redis, { secret: SECRET, limits: { wrongCodesPerMinute: 1 } });
    const client = await redisClient(redis);
    await client.set('peergrad:room:AAAAAA', 'somebody-who-died.1', { PX: 100 });
    const pending = member(server);
    await pending.join('AAAAAA', 'Ed');
    expect(await pending.next('refused')).toMatchObject({
      code: 'server-closing',
      message: expect.stringMatching(/^The room is moving/),
    });
    const ada = { id: 'Ada-Ada-Ada', token: new Credentials(SECRET).tokenFor('AAAAAA', 'Ada-Ada-Ada') };
    const ring = [{ member: ada.id, name: 'Ada', device: CPU, browser: 0, rank: null }];
    const back = await reconnect(server, 'AAAAAA', ada, stateOf(7, ring));
    await back.next('admitted');
    await joined(server, 'AAAAAA', 'Ed');
  });

  test('expires if Redis does not answer for too long; the owner continues the room until then', async () => {
    const clock = new ManualClock();
    const { redis, one, other } = await two({ clock });
    const room = await one.openRoom({ job: DEFAULT_JOB, startAt: 2, nodes: NODES });
    const [ada, bo] = [await joined(one, room, 'Ada'), await joined(other, room, 'Bo')];
    await train([ada.tab, bo.tab]);
    redis.freeze();
    // This renewal gets no answer. The next renewal notices that.
    clock.advance(2_000);
    clock.advance(2_000);
    expect(await bo.tab.closed).toBe(1012);
    expect([await isReady(one), await isReady(other)]).toEqual([false, false]);
    const late = await joined(one, room, 'Cy');
    const stranded = member(other);
    await stranded.join(room);
    expect((await stranded.next('refused')).code).toBe('server-closing');
    clock.advance(2_000);
    for (const { tab } of [ada, late]) expect(await tab.closed).toBe(1012);
    expect(await rooms(one)).toBe(0);
  });

  test('is acquired again by the owner after Redis has restarted without its data', async () => {
    const { redis, one, other } = await two();
    const room = await one.openRoom({ job: DEFAULT_JOB, startAt: 2, nodes: NODES });
    const [ada, bo] = [await joined(one, room, 'Ada'), await joined(other, room, 'Bo')];
    const { generation, members } = await train([ada.tab, bo.tab]);
    await redis.stop();
    expect(await bo.tab.closed).toBe(1012);
    await redis.startAgain();
    await expect.poll(() => isReady(one)).toBe(true);
    const back = await reconnectUntilAdmitted(other, room, bo, stateOf(generation, members));
    expect(await back.next('go')).toEqual({ type: 'go', generation });
    expect(await rooms(one)).toBe(1);
    // A process that starts later receives the secret that signed the members' tokens.
    const third = await start(redis);
    ada.tab.socket.terminate();
    const again = await reconnectUntilAdmitted(third, room, ada, stateOf(generation, members));
    expect(await again.next('go')).toEqual({ type: 'go', generation });
  });
});

describe.skipIf(!hasRedis)('a process that is killed', () => {
  test('loses its rooms, and their members restore them in another process', async () => {
    const redis = await startRedis();
    const order: ServerOptions = { rooms: 1, startAt: 4, nodes: NODES, logLevel: 'silent', redisUrl: redis.url };
    const child = new LoadGenerator('./serverProcess.ts', JSON.stringify(order));
    onEnd(() => child.kill());
    const [owner, other] = [await child.next<ServerReply>(), await start(redis)];
    const [room] = owner.rooms as [string];
    const names = ['Ada', 'Bo', 'Cy', 'Di'];
    const all: Joined[] = [];
    for (const [i, name] of names.entries()) all.push(await joined(i % 2 === 0 ? owner : other, room, name));
    const { generation, members } = await train(all.map(({ tab }) => tab));
    await child.kill();
    const codes = await Promise.all(all.map(({ tab }) => tab.closed));
    expect(codes).toEqual([1006, 1012, 1006, 1012]);
    const newcomer = member(other);
    await newcomer.join(room, 'Flo');
    // The requests of the members wait until the lease has expired.
    const back = await Promise.all(
      all.map((who) => reconnectUntilAdmitted(other, room, who, stateOf(generation, members))),
    );
    for (const tab of back) expect(await tab.next('go')).toEqual({ type: 'go', generation });
    expect(await rooms(other)).toBe(1);
    // The newcomer's code was right, so it is admitted or may retry.
    expect(['admitted', 'server-closing']).toContain(await newcomer.answer());
    const late = await joined(other, room, 'Ed');
    const next = await train([...back, late.tab], 5);
    expect(next.generation).toBeGreaterThan(generation);
  });
});

describe('a server that shares its rooms', () => {
  test('does not start without Redis, and does not print its password', async () => {
    for (const [redisUrl, sentence] of [
      ['redis://:hidden@127.0.0.1:1', /^The connection to Redis at 127\.0\.0\.1:1 failed/],
      ['http://hidden', /^REDIS_URL is not a Redis URL such as/],
    ] as const) {
      const message = await startSignaling({ redisUrl }).then(() => '', errorMessageOf);
      expect(message).toMatch(sentence);
      expect(message).not.toContain('hidden');
    }
  });
});
