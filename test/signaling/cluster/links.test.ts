/** Links through the server whose two ends are connected to different processes. */
import { afterEach, describe, expect, test } from 'vitest';
import { LoadGenerator } from '../../../bench/signaling/child.ts';
import type { ServerOptions, ServerReply } from '../../../bench/signaling/serverProcess.ts';
import type { SignalingServer } from '../../../signaling/index.ts';
import { MAX_FRAME_BYTES } from '../../../src/protocol/frame.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import { enter, testServers, type TestMember } from '../helpers.ts';
import { LinkClient } from '../links/linkClient.ts';
import { hasRedis, RedisServer } from './redisServer.ts';

const MIB = 1024 * 1024;
const FRAME = Buffer.alloc(MAX_FRAME_BYTES, 'x');
const SECRET = 'a secret of all processes';
/** Members of these tests send no heartbeats. */
const LIMITS = { silentMs: 120_000, linksPerPair: 40 };

const { onEnd, start: startServer, member } = testServers();

type Server = Pick<SignalingServer, 'url'>;

async function startRedis(): Promise<RedisServer> {
  const redis = await RedisServer.start();
  onEnd(() => redis.stop());
  return redis;
}

/** Starts processes that share a Redis server. The first one opens the rooms. */
async function processes(count: number) {
  const redis = await startRedis();
  const options = { redisUrl: redis.url, secret: SECRET, limits: LIMITS };
  const servers: SignalingServer[] = [];
  while (servers.length < count) servers.push(await startServer(options));
  return { redis, servers };
}

/** A room of two members whose generation has begun, and the first messages of their links. */
async function members(room: string, ofAda: Server, ofBo: Server) {
  const tabs: [TestMember, TestMember] = [member(ofAda), member(ofBo)];
  const [ada, bo] = [await enter(tabs[0], room, 'Ada'), await enter(tabs[1], room, 'Bo')];
  const { generation } = await tabs[0].next('prepare');
  await tabs[1].next('prepare');
  return {
    ada: tabs[0],
    opening: { room, member: ada.id, token: ada.token, peer: bo.id, generation },
    answering: { room, member: bo.id, token: bo.token, peer: ada.id, generation },
  };
}

function client(server: Server): LinkClient {
  const one = new LinkClient(server);
  onEnd(() => one.socket.terminate());
  return one;
}

type Members = Awaited<ReturnType<typeof members>>;

/** Opens a link between the two members over these processes. */
async function link({ opening, answering }: Members, one: Server, other: Server, channel = 'c'.repeat(32)) {
  const [a, b] = [client(one), client(other)];
  await Promise.all([a.open({ ...opening, channel }), b.open({ ...answering, channel })]);
  expect([await a.answer(), await b.answer()]).toEqual(['paired', 'paired']);
  return { a, b };
}

/** Two processes, a room, and a link between both. */
async function linked() {
  const { redis, servers } = await processes(2);
  const [one, other] = servers as [SignalingServer, SignalingServer];
  const both = await members(await one.openRoom({ job: DEFAULT_JOB, startAt: 2 }), one, other);
  return { redis, one, other, both, ...(await link(both, one, other)) };
}

/** Resolves with a value of `/metrics`. */
async function metric({ url }: Server, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1]);
}

const linksOf = (server: Server): Promise<number> => metric(server, 'peergrad_server_links');

describe.skipIf(!hasRedis)('two members whose links go to different processes', () => {
  test('are linked, and frames of all lengths arrive in order in both directions', async () => {
    const { one, other, a, b } = await linked();
    const texts = ['', '\n{"type":"frame"}\n', 'y'.repeat(MAX_FRAME_BYTES + 16), 'last'];
    for (const text of texts) await a.send(Buffer.from(text));
    await b.send(Buffer.from('to Ada'));
    const received: string[] = [];
    while (received.length < texts.length) received.push(await b.frame());
    expect(received).toEqual(texts);
    expect(await a.frame()).toBe('to Ada');
    expect([await linksOf(one), await linksOf(other)]).toEqual([1, 1]);
    const bytes = texts.join('').length + 'to Ada'.length;
    const counted = [one, other].map((server) => metric(server, 'peergrad_server_link_bytes_total'));
    expect(await Promise.all(counted)).toEqual([bytes, bytes]);
  });

  test('are linked even if neither of these processes has the room, or both ends connect to the same process', async () => {
    const { servers } = await processes(3);
    const [owner, one, other] = servers as [SignalingServer, SignalingServer, SignalingServer];
    const both = await members(await owner.openRoom({ job: DEFAULT_JOB, startAt: 2 }), owner, one);
    for (const [i, [left, right]] of [[one, other] as const, [other, other] as const].entries()) {
      const { a, b } = await link(both, left, right, String(i).repeat(32));
      await a.send(Buffer.from('to Bo'));
      await b.send(Buffer.from('to Ada'));
      expect([await a.frame(), await b.frame()]).toEqual(['to Ada', 'to Bo']);
    }
    expect(await Promise.all([owner, one, other].map(linksOf))).toEqual([0, 1, 2]);
  });

  test('are linked if many ends find each other at the same time', async () => {
    const { servers } = await processes(2);
    const [one, other] = servers as [SignalingServer, SignalingServer];
    const both = await members(await one.openRoom({ job: DEFAULT_JOB, startAt: 2 }), one, other);
    const channels = Array.from({ length: 40 }, (_, i) => i.toString(16).padStart(32, '0'));
    const all = await Promise.all(
      channels.map((channel, i) => link(both, i % 2 === 0 ? one : other, i % 2 === 0 ? other : one, channel)),
    );
    await Promise.all(all.map(({ a }, i) => a.send(Buffer.from(`${i}`))));
    await Promise.all(all.map(({ b }, i) => b.send(Buffer.from(`back ${i}`))));
    expect(await Promise.all(all.map(({ b }) => b.frame()))).toEqual(channels.map((_, i) => `${i}`));
    expect(await Promise.all(all.map(({ a }) => a.frame()))).toEqual(channels.map((_, i) => `back ${i}`));
  });

  test('are refused if the process that has the room decides so', async () => {
    const { servers } = await processes(2);
    const [one, other] = servers as [SignalingServer, SignalingServer];
    const { opening } = await members(await one.openRoom({ job: DEFAULT_JOB, startAt: 2 }), one, other);
    const late = client(other);
    await late.open({ ...opening, generation: opening.generation + 1 });
    expect(await late.answer()).toMatch(/are not ranks of the latest generation/);
    const forged = client(other);
    await forged.open({ ...opening, token: 'x'.repeat(40) });
    expect((await forged.closed).reason).toBe('bad-token');
  });

  test('get all frames of an end that closes, and then lose their link', async () => {
    const { one, other, a, b } = await linked();
    for (let i = 0; i < 40; i++) await a.send(FRAME);
    a.socket.close();
    expect(await b.closed).toEqual({ code: 1000, reason: 'The other end of the link has closed.' });
    expect(b.frames).toHaveLength(40);
    await expect.poll(async () => [await linksOf(one), await linksOf(other)]).toEqual([0, 0]);
  });

  test('lose their link with its reason if an end sends a text', async () => {
    const { a, b } = await linked();
    await b.send('text');
    const closed = { code: 1008, reason: 'One end of the link sent a text, but frames are binary.' };
    expect([await a.closed, await b.closed]).toEqual([closed, closed]);
  });

  test('lose their link if one of them leaves, even if neither process has the room', async () => {
    const { servers } = await processes(3);
    const [owner, one, other] = servers as [SignalingServer, SignalingServer, SignalingServer];
    const both = await members(await owner.openRoom({ job: DEFAULT_JOB, startAt: 2 }), owner, owner);
    const { a, b } = await link(both, one, other);
    await both.ada.send({ type: 'leave' });
    const left = { code: 1000, reason: 'A member of the link is no longer in the room.' };
    expect([await a.closed, await b.closed]).toEqual([left, left]);
  });
});

describe.skipIf(!hasRedis)('an end that floods, and whose other end does not read', () => {
  test('is not read any more when 1 MiB waits; other links go on, and everything arrives when the end reads', async () => {
    const { one, other, both, a, b } = await linked();
    const good = await link(both, one, other, 'd'.repeat(32));
    b.socket.pause();
    const count = 300;
    for (let i = 0; i < count; i++) a.socket.send(Buffer.alloc(MAX_FRAME_BYTES, i % 256));
    const forwarded = (): Promise<number> => metric(other, 'peergrad_server_link_bytes_total');
    let before = -1;
    for (let now = await forwarded(); now > before || now < MIB; now = await forwarded()) {
      before = now;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    // The operating system has buffered some MiB on the way, and the processes one.
    expect(a.socket.bufferedAmount).toBeGreaterThan(2 * MIB);
    for (let i = 0; i < 100; i++) {
      await good.a.send(Buffer.from(`${i}`));
      expect(await good.b.frame()).toBe(`${i}`);
    }
    const first: number[] = [];
    b.socket.on('message', (data: Buffer) => first.push(data[0]!));
    b.socket.resume();
    await expect.poll(() => first.length, { timeout: 40_000 }).toBe(count);
    expect(first).toEqual(Array.from({ length: count }, (_, i) => i % 256));
  }, 60_000);
});

describe.skipIf(!hasRedis)('a process that ends', () => {
  const gone = { code: 1012, reason: 'The server process of the other end is gone.' };
  const children: LoadGenerator[] = [];
  afterEach(async () => {
    while (children.length > 0) await children.pop()!.kill();
  });

  test('because it is killed: the ends of its links in other processes are closed within seconds', async () => {
    const redis = await startRedis();
    const shared = { redisUrl: redis.url, limits: LIMITS };
    const options: ServerOptions = { rooms: 1, startAt: 2, logLevel: 'silent', ...shared };
    const child = new LoadGenerator('./serverProcess.ts', JSON.stringify(options));
    children.push(child);
    const owner = await child.next<ServerReply>();
    const other = await startServer(shared);
    const both = await members(owner.rooms[0]!, owner, other);
    const [{ b }, local] = [await link(both, owner, other), await link(both, other, other, 'd'.repeat(32))];
    await child.kill();
    const killedAt = performance.now();
    expect(await b.closed).toEqual(gone);
    expect(performance.now() - killedAt).toBeLessThan(6_000);
    // A link whose two ends are in the other process does not need the process with the room.
    await local.a.send(Buffer.from('still there'));
    expect(await local.b.frame()).toBe('still there');
  });

  test('because it closes: both ends of its links learn that', async () => {
    const { one, a, b } = await linked();
    await one.close();
    const closed = { code: 1012, reason: 'The server is closing.' };
    expect([await a.closed, await b.closed]).toEqual([closed, closed]);
  });

  test.each(['stops', 'freezes'] as const)(
    'because Redis %s: links between processes end, and links within a process go on',
    async (how) => {
      const { redis, one, other, both, a, b } = await linked();
      const local = await link(both, one, one, 'd'.repeat(32));
      if (how === 'stops') await redis.stop();
      else redis.freeze();
      expect([await a.closed, await b.closed]).toEqual([gone, gone]);
      await local.a.send(Buffer.from('still there'));
      expect(await local.b.frame()).toBe('still there');
      const late = client(other);
      await late.open({ ...both.opening, channel: 'e'.repeat(32) });
      expect(await late.answer()).toMatch(/^The room of the link cannot be asked: This server has lost the connection/);
    },
  );
});
