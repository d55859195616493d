import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { PROTOCOL_VERSION } from '../../../src/protocol/control.ts';
import { MAX_FRAME_BYTES } from '../../../src/protocol/frame.ts';
import { SERVER_LINK_PATH, type ServerLinkOpening } from '../../../src/protocol/serverLink.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import { Credentials } from '../../../signaling/credentials.ts';
import { startSignaling, type SignalingOptions, type SignalingServer } from '../../../signaling/index.ts';
import { ServerLinks } from '../../../signaling/links/serverLinks.ts';
import { SharedRate } from '../../../signaling/links/sharedRate.ts';
import { NO_ICE } from '../../../signaling/ice.ts';
import { DEFAULT_LIMITS, type Limits } from '../../../signaling/limits.ts';
import { Metrics } from '../../../signaling/monitoring/metrics.ts';
import { RoomLog } from '../../../signaling/monitoring/roomLog.ts';
import { AWAY_MS } from '../../../signaling/room/index.ts';
import { ManualClock } from '../../manualClock.ts';
import { FakeSocket } from '../fakeSocket.ts';
import { connections, create, testServers } from '../helpers.ts';
import { LinkClient } from './linkClient.ts';

const { onEnd, start, member, pair } = testServers();

const SECRET = 'the secret of the test';
const DAY_MS = 24 * 60 * 60 * 1000;
const { linkOpeningMs } = DEFAULT_LIMITS;

function client(server: SignalingServer): LinkClient {
  const one = new LinkClient(server);
  onEnd(() => one.socket.terminate());
  return one;
}

/** A room with two members whose generation has begun, and the first messages of their links. */
async function room(options?: SignalingOptions) {
  const one = await pair(options);
  const { room: code, adaId, adaToken, boId, boToken, generation } = one;
  const ofAda = { room: code, member: adaId, token: adaToken, peer: boId, generation };
  const ofBo = { room: code, member: boId, token: boToken, peer: adaId, generation };
  return { ...one, ofAda, ofBo };
}

/** A room whose two members are linked. */
async function linked(options?: SignalingOptions) {
  const one = await room(options);
  const [a, b] = [client(one.server), client(one.server)];
  await a.open(one.ofAda);
  await b.open(one.ofBo);
  expect([await a.answer(), await b.answer()]).toEqual(['paired', 'paired']);
  return { ...one, a, b };
}

/** Links without a server, in a room that allows all. */
function unit(changed: Partial<Limits> = {}) {
  const clock = new ManualClock();
  const limits = { ...DEFAULT_LIMITS, ...changed };
  const log = pino({ level: 'silent' });
  const metrics = new Metrics(() => ({ rooms: 0, connections: 0, members: 0, serverLinks: 0 }));
  const credentials = new Credentials(SECRET);
  const links = new ServerLinks({
    clock,
    limits,
    credentials,
    log,
    roomLog: new RoomLog(log, metrics),
    metrics,
    rate: new SharedRate(clock, limits.serverLinksBytesPerSecond),
    refusalOf: () => null,
    announce: () => 0,
  });
  /** Opens an end of the link `channel`, which is a letter. */
  const open = (id: string, peer: string, channel: string): FakeSocket => {
    const socket = new FakeSocket(() => {});
    links.accept(socket.socket);
    const token = credentials.tokenFor('K7F3QX', id);
    const who = { room: 'K7F3QX', member: id, token, peer, generation: 1 };
    socket.receive(JSON.stringify({ version: PROTOCOL_VERSION, ...who, channel: channel.repeat(32) }));
    return socket;
  };
  return { clock, links, open };
}

/** Resolves with the lines of `/metrics` about links. */
async function linesOf({ url }: SignalingServer): Promise<string[]> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return text.split('\n').filter((line) => line.startsWith('peergrad_server_link'));
}

/** Resolves with the status of an upgrade request for a link. */
async function statusOf({ port }: SignalingServer, headers: Record<string, string> = {}): Promise<number | undefined> {
  const upgrade = { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' };
  const key = { 'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==' };
  const all = { ...upgrade, ...key, ...headers };
  const asked = request({ port, host: '127.0.0.1', path: SERVER_LINK_PATH, agent: false, headers: all }).end();
  const [response, stream] = (await Promise.race([once(asked, 'upgrade'), once(asked, 'response')])) as [
    IncomingMessage,
    { destroy: () => void } | undefined,
  ];
  onEnd(() => void (stream ?? response).destroy());
  return response.statusCode;
}

describe('two members of a generation', () => {
  test('are linked, and the server forwards their frames in both directions', async () => {
    const { server, a, b } = await linked();
    for (let i = 0; i < 3; i++) await a.send(Buffer.from(`to Bo ${i}`));
    await b.send(Buffer.from('to Ada'));
    expect([await b.frame(), await b.frame(), await b.frame()]).toEqual(['to Bo 0', 'to Bo 1', 'to Bo 2']);
    expect(await a.frame()).toBe('to Ada');
    const sealed = Buffer.alloc(MAX_FRAME_BYTES + 16, 'x');
    await a.send(sealed);
    expect(await b.frame()).toBe(sealed.toString());
    expect(await linesOf(server)).toEqual([
      'peergrad_server_links 1',
      `peergrad_server_link_bytes_total ${27 + sealed.length}`,
    ]);
  });

  test('have as many links as they open, each with its own frames', async () => {
    const { server, ofAda, ofBo, a, b } = await linked();
    const channel = 'd'.repeat(32);
    const [otherA, otherB] = [client(server), client(server)];
    await otherB.open({ ...ofBo, channel });
    await otherA.open({ ...ofAda, channel });
    expect([await otherA.answer(), await otherB.answer()]).toEqual(['paired', 'paired']);
    await otherA.send(Buffer.from('other'));
    await a.send(Buffer.from('first'));
    expect([await b.frame(), await otherB.frame()]).toEqual(['first', 'other']);
  });

  test('lose their link when one end closes it', async () => {
    const { server, a, b } = await linked();
    a.socket.close();
    expect(await b.closed).toEqual({ code: 1000, reason: 'The other end of the link has closed.' });
    await expect.poll(async () => (await linesOf(server))[0]).toBe('peergrad_server_links 0');
    // The members themselves stay in the room.
    expect(await connections(server)).toBe(2);
  });

  test('learn from the server whether they may link through it', async () => {
    for (const serverLinks of ['off', 'on', 'only'] as const) {
      const ada = member(await start({ serverLinks }));
      await ada.send(create());
      expect((await ada.next('admitted')).serverLinks).toBe(serverLinks);
    }
  });
});

test('a run whose links all go through the server says so when one cannot be opened', async () => {
  const ice = { ...NO_ICE, turn: ['turn:relay.example:3478'], turnSecret: 'north' };
  const { ada, boId, generation } = await room({ serverLinks: 'only', ice });
  await ada.send({ type: 'broken', generation, peers: [boId] });
  expect((await ada.next('ended')).message).toMatch(/could not connect to each other.*--server-links only/);
});

describe('a link is refused', () => {
  const refusals: [why: string, change: Partial<ServerLinkOpening>, message: RegExp, reason: string][] = [
    ['a forged token', { token: 'x'.repeat(40) }, /^The token of this link is not valid/, 'bad-token'],
    ['the other member', { member: 'somebody-else' }, /^The token of this link is not valid/, 'bad-token'],
    ['a later generation', { generation: 7 }, /are not ranks of the latest generation/, 'not-allowed'],
    ['an earlier generation', { generation: 0 }, /are not ranks of the latest generation/, 'not-allowed'],
    ['a peer that is no rank', { peer: 'somebody-else' }, /are not ranks of the latest generation/, 'not-allowed'],
    ['another version', { version: 1 as never }, /version: .* Reload the page\.$/, 'bad-message'],
    ['a channel of another form', { channel: 'mine' }, /channel: .* Reload the page\.$/, 'bad-message'],
  ];

  test.each(refusals)('for %s', async (_why, change, message, reason) => {
    const { server, ofAda } = await room();
    const a = client(server);
    await a.open({ ...ofAda, ...change });
    expect(await a.answer()).toMatch(message);
    expect(await a.closed).toEqual({ code: 1008, reason });
    expect(await linesOf(server)).toContain(`peergrad_server_links_refused_total{reason="${reason}"} 1`);
  });

  test('for itself as the peer', async () => {
    const { server, ofAda } = await room();
    const a = client(server);
    await a.open({ ...ofAda, peer: ofAda.member });
    expect((await a.closed).reason).toBe('not-allowed');
  });

  test('for a token that has expired, and for a token of another room', async () => {
    const { server, ofAda } = await room({ secret: SECRET });
    const other = server.createRoom({ job: DEFAULT_JOB, startAt: null });
    const tokens = [
      new Credentials(SECRET, () => Date.now() - 2 * DAY_MS).tokenFor(ofAda.room, ofAda.member),
      new Credentials(SECRET).tokenFor(other, ofAda.member),
    ];
    for (const token of tokens) {
      const a = client(server);
      await a.open({ ...ofAda, token });
      expect((await a.closed).reason).toBe('bad-token');
    }
  });

  test('for a room that does not exist', async () => {
    const { server, ofAda } = await room({ secret: SECRET });
    const a = client(server);
    await a.open({ ...ofAda, room: 'AAAAAA', token: new Credentials(SECRET).tokenFor('AAAAAA', ofAda.member) });
    expect(await a.answer()).toBe('The server does not have the room of the link.');
  });

  test('for a member that has left, and for its former peer', async () => {
    const { server, ada, bo, ofAda, ofBo } = await room();
    await ada.send({ type: 'leave' });
    await bo.next('ended');
    for (const opening of [ofAda, ofBo]) {
      const one = client(server);
      await one.open(opening);
      expect((await one.closed).reason).toBe('not-allowed');
    }
  });

  test('if the first message is binary or not JSON', async () => {
    const server = await start();
    for (const data of ['hello', Buffer.from('hello')]) {
      const one = client(server);
      await one.send(data);
      expect(await one.closed).toEqual({ code: 1008, reason: 'bad-message' });
    }
  });

  test.each([
    ['a frame', (one: LinkClient) => one.socket.send(Buffer.from('early'))],
    ['a text', (one: LinkClient) => one.socket.send('early')],
    ['a ping', (one: LinkClient) => one.socket.ping()],
  ])('if %s arrives before the other end', async (_what, send) => {
    const { server, ofAda, ofBo } = await room();
    const [a, b] = [client(server), client(server)];
    await a.open(ofAda);
    send(a);
    expect(await a.closed).toEqual({ code: 1008, reason: 'bad-message' });
    // The end that was refused is not paired.
    await b.open(ofBo);
    const again = client(server);
    await again.open(ofAda);
    expect([await again.answer(), await b.answer()]).toEqual(['paired', 'paired']);
  });

  test('if no first message arrives, or the other end does not arrive, within 15 s', async () => {
    const clock = new ManualClock();
    const { server, ofAda, ofBo } = await room({ clock, limits: { silentMs: 1e9 } });
    const [idle, a] = [client(server), client(server)];
    await idle.opened();
    clock.advance(linkOpeningMs / 2);
    await a.open(ofAda);
    // When another end is refused, the first messages before it have been handled.
    const late = client(server);
    await late.open({ ...ofBo, generation: 9 });
    await late.closed;
    clock.advance(linkOpeningMs / 2);
    expect(await idle.closed).toEqual({ code: 1008, reason: 'silent' });
    clock.advance(linkOpeningMs / 2);
    expect(await a.closed).toEqual({ code: 1008, reason: 'alone' });
    expect(a.answers).toEqual(['The other end of the link did not arrive within 15 s.']);
  });

  test('for the earlier of two connections of the same end', async () => {
    const { server, ofAda, ofBo } = await room();
    const [first, second, b] = [client(server), client(server), client(server)];
    await first.open(ofAda);
    await first.opened();
    await second.open(ofAda);
    const [earlier, later] = await Promise.race([
      first.closed.then(() => [first, second] as const),
      second.closed.then(() => [second, first] as const),
    ]);
    expect(earlier.answers).toEqual(['This end of the link has opened another connection.']);
    await b.open(ofBo);
    expect(await later.answer()).toBe('paired');
  });

  test('for a member with too many links', async () => {
    const { server, ofAda, ofBo } = await linked({ limits: { linksPerMember: 1 } });
    const one = client(server);
    await one.open({ ...ofAda, channel: 'd'.repeat(32) });
    expect(await one.answer()).toBe('This tab has 1 links through the server already.');
    expect((await one.closed).reason).toBe('too-many');
    const other = client(server);
    await other.open({ ...ofBo, channel: 'e'.repeat(32) });
    expect((await other.closed).reason).toBe('too-many');
  });
});

test('a fifth link of the same two members is refused', async () => {
  const { links, open } = unit();
  const channels = ['a', 'b', 'c', 'd', 'e'];
  const sockets = channels.flatMap((one) => [open('member-a', 'member-b', one), open('member-b', 'member-a', one)]);
  const other = [open('member-a', 'member-c', 'f'), open('member-c', 'member-a', 'f')];
  await new Promise(setImmediate);
  expect(sockets.map(({ closedWhy }) => closedWhy)).toEqual([
    ...Array<undefined>(8).fill(undefined),
    'too-many',
    'too-many',
  ]);
  expect(other.map(({ closedWith }) => closedWith)).toEqual([null, null]);
  expect(links.count).toBe(5);
});

describe('a link ends for both', () => {
  test('if an end sends a text', async () => {
    const { a, b } = await linked();
    await a.send('text');
    const closed = { code: 1008, reason: 'One end of the link sent a text, but frames are binary.' };
    expect([await a.closed, await b.closed]).toEqual([closed, closed]);
  });

  test('if an end sends more than a frame', async () => {
    const { a, b } = await linked();
    await a.send(Buffer.alloc(MAX_FRAME_BYTES + 65));
    expect((await a.closed).code).toBe(1009);
    expect(await b.closed).toEqual({ code: 1008, reason: 'One end of the link sent an invalid or too large message.' });
    expect(b.frames).toEqual([]);
  });

  const left = { code: 1000, reason: 'A member of the link is no longer in the room.' };

  test('if a member leaves', async () => {
    const { ada, a, b } = await linked();
    await ada.send({ type: 'leave' });
    expect([await a.closed, await b.closed]).toEqual([left, left]);
  });

  test('if a member is removed by the host', async () => {
    const { bo, ada, boId, a, b } = await linked();
    await ada.send({ type: 'remove', member: boId });
    await bo.next('refused', ({ code }) => code === 'removed');
    expect([await a.closed, await b.closed]).toEqual([left, left]);
  });

  test('if a member is refused for its messages', async () => {
    const { ada, a, b } = await linked();
    await ada.raw('nonsense');
    expect([await a.closed, await b.closed]).toEqual([left, left]);
  });

  test('if a member is silent', async () => {
    const clock = new ManualClock();
    const { bo, a, b } = await linked({ clock });
    clock.advance(DEFAULT_LIMITS.silentMs / 2);
    await bo.send({ type: 'heartbeat' });
    await bo.next('heartbeat');
    clock.advance(DEFAULT_LIMITS.silentMs / 2);
    expect([await a.closed, await b.closed]).toEqual([left, left]);
  });

  test('if the connection of a member is lost and the member does not return; until then the link works', async () => {
    const clock = new ManualClock();
    const { server, ada, a, b } = await linked({ clock });
    ada.socket.terminate();
    await expect.poll(() => connections(server)).toBe(1);
    clock.advance(AWAY_MS - 1);
    await a.send(Buffer.from('still there'));
    expect(await b.frame()).toBe('still there');
    clock.advance(1);
    expect([await a.closed, await b.closed]).toEqual([left, left]);
  });

  test('if a member leaves, even for an end that waits', async () => {
    const { clock, links, open } = unit();
    const sockets = [
      open('member-a', 'member-b', 'c'),
      open('member-b', 'member-a', 'c'),
      open('member-a', 'member-b', 'd'),
    ];
    await new Promise(setImmediate);
    expect(links.count).toBe(1);
    links.closeMember('ZZZZZZ', 'member-a');
    links.closeMember('K7F3QX', 'member-c');
    expect(sockets.map(({ closedWith }) => closedWith)).toEqual([null, null, null]);
    links.closeMember('K7F3QX', 'member-a');
    expect(sockets.map(({ closedWith }) => closedWith)).toEqual([1000, 1000, 1000]);
    expect([links.count, clock.untilNext]).toEqual([0, null]);
  });

  test('if all links hold too much, and this link holds the most', async () => {
    const MIB = 1024 * 1024;
    const { links, open } = unit({ linkBytes: 10 * MIB, maxAllLinksBytes: MIB });
    const [a, b, c, d] = [
      ...[open('member-a', 'member-b', 'c'), open('member-b', 'member-a', 'c')],
      ...[open('member-c', 'member-d', 'd'), open('member-d', 'member-c', 'd')],
    ] as [FakeSocket, FakeSocket, FakeSocket, FakeSocket];
    await new Promise(setImmediate);
    b.isReading = d.isReading = false;
    for (let i = 0; i < 12; i++) a.receive(Buffer.alloc(MAX_FRAME_BYTES));
    for (let i = 0; i < 12; i++) c.receive(Buffer.alloc(i < 6 ? MAX_FRAME_BYTES : 1));
    await new Promise(setImmediate);
    const why = 'All links together had too much unsent data, and this one had the most.';
    expect([a.closedWhy, b.closedWhy, c.closedWhy, d.closedWhy]).toEqual([why, why, undefined, undefined]);
    expect(links.count).toBe(1);
    c.receive(Buffer.alloc(MAX_FRAME_BYTES));
    await new Promise(setImmediate);
    expect(links.count).toBe(1);
  });

  test('if the server closes, even for ends that wait', async () => {
    const { server, ofAda, a, b } = await linked();
    const [idle, alone] = [await client(server).opened(), client(server)];
    await alone.open({ ...ofAda, channel: 'd'.repeat(32) });
    await alone.opened();
    // Frames of the link are forwarded after the first message of the other end has arrived.
    await a.send(Buffer.from('x'));
    await b.frame();
    await server.close();
    const closed = { code: 1012, reason: 'The server is closing.' };
    expect([await a.closed, await b.closed]).toEqual([closed, closed]);
    expect([(await idle.closed).code, (await alone.closed).code]).toEqual([1012, 1012]);
  });

  test('if the server closes, although an end does not answer', async () => {
    const { server, a, b } = await linked({ limits: { closeGraceMs: 50 } });
    a.socket.pause();
    await server.close();
    expect((await b.closed).code).toBe(1012);
  });
});

describe('the path of links', () => {
  test('does not exist if the server has no links', async () => {
    const server = await start({ serverLinks: 'off' });
    expect(await statusOf(server)).toBe(404);
    expect(await statusOf(await start())).toBe(101);
  });

  test('is limited by address, together with the connections of members', async () => {
    const server = await start({ limits: { socketsPerAddress: 2 } });
    await member(server).opened();
    expect([await statusOf(server), await statusOf(server)]).toEqual([101, 429]);
    const flooded = await start({ limits: { connectionBurst: 20, connectionsPerSecond: 0 } });
    const statuses = await Promise.all(Array.from({ length: 30 }, () => statusOf(flooded)));
    expect(statuses.filter((status) => status === 429)).toHaveLength(10);
  });

  test('is closed to pages of other origins', async () => {
    const server = await start();
    expect(await statusOf(server, { origin: 'https://evil.example' })).toBe(403);
    expect(await statusOf(server, { origin: server.url })).toBe(101);
  });
});

test('a rate below 0.1 MB/s is rejected', async () => {
  await expect(startSignaling({ serverLinksRate: 0 })).rejects.toThrow(/at least 0.1 MB\/s, not 0/);
});

test('the rate of the options holds for all links together', async () => {
  const clock = new ManualClock();
  const { a, b } = await linked({ clock, serverLinksRate: 0.1 });
  const frame = Buffer.alloc(MAX_FRAME_BYTES, 'x');
  for (let i = 0; i < 4; i++) await a.send(frame);
  // 128 KiB may be sent at once. The frame that exceeds them is forwarded before the source waits.
  await b.frame();
  await b.frame();
  let received = 2;
  while (received < 4) {
    clock.advance(100);
    await new Promise(setImmediate);
    received += b.frames.splice(0).length;
  }
  // 256 KiB at 100 kB/s, without the first 128 KiB and the last frame, which is paid afterwards.
  expect(clock.now()).toBeGreaterThanOrEqual(600);
});
