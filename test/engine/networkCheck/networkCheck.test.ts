/** Network checks of several tabs at a real server. Fake links take the place of WebRTC. */
import { webcrypto } from 'node:crypto';
import { afterEach, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { networkAdviceFor } from '../../../src/app/network/advice.ts';
import { NetworkCheck, type NetworkCheckOptions } from '../../../src/engine/networkCheck/networkCheck.ts';
import type { SignalingSocket } from '../../../src/engine/membership/signalingClient.ts';
import { NETWORK_CHECK_ROOM, type NetworkReport } from '../../../src/protocol/networkCheck.ts';
import type { Link } from '../../../src/transport/link.ts';
import { createMemoryLinkPair } from '../../../src/transport/memoryLink.ts';
import type { PeerAttempt, PeerConnectOptions } from '../../../src/transport/peerLink.ts';
import type { LinkSocket } from '../../../src/transport/serverLinkChannel.ts';
import { connectThroughServer } from '../../../src/transport/serverLink.ts';
import { systemClock } from '../../../src/util/clock.ts';
import { createDeferred, type Deferred } from '../../../src/util/deferred.ts';
import { PeerGoneError } from '../../../src/util/errors.ts';
import { startSignaling, type SignalingServer } from '../../../signaling/index.ts';
import type { SignalingOptions } from '../../../signaling/index.ts';
import { TestMember } from '../../signaling/helpers.ts';

/** Tests wait longer on a busy machine. */
const SOON = { timeout: 20_000, interval: 10 };

/** Opens a WebSocket. Without a listener, an error would end the process. */
function open(url: URL): WebSocket {
  return new WebSocket(url).on('error', () => {});
}

const ended: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ended.splice(0).reverse()) await end();
});

async function serverWith(options: SignalingOptions = {}): Promise<SignalingServer> {
  const server = await startSignaling(options);
  ended.push(() => server.close());
  return server;
}

/** Offers of fake WebRTC links. The SDP is the index of the offer. */
const offers: Deferred<Link>[] = [];

function connectFake({ initiator, onsignal }: PeerConnectOptions): PeerAttempt {
  const link = createDeferred<Link>();
  if (initiator) onsignal({ type: 'offer', sdp: String(offers.push(link) - 1) });
  return {
    link: link.promise,
    signal(signal) {
      if (initiator || signal.type !== 'offer') return;
      const [a, b] = createMemoryLinkPair();
      offers[Number(signal.sdp)]!.resolve(a);
      link.resolve(b);
    },
    abort: () => link.reject(new PeerGoneError('Linking was cancelled.')),
  };
}

function connectNever(): PeerAttempt {
  const link = createDeferred<Link>();
  link.reject(new PeerGoneError('The connection failed.'));
  return { link: link.promise, signal: () => {}, abort: () => {} };
}

function connectForever(): PeerAttempt {
  return { link: createDeferred<Link>().promise, signal: () => {}, abort: () => {} };
}

const sameBrowser = () => Promise.resolve('dora-1234567890123456');

/** A tab with a page that is open. `report` is its latest report. */
function tab({ url }: SignalingServer, options: Partial<NetworkCheckOptions> = {}) {
  const reports: NetworkReport[] = [];
  const name = options.name ?? 'tab';
  const check = new NetworkCheck({
    server: url,
    name,
    isSecure: true,
    clock: systemClock,
    today: Date.now,
    openSocket: (address) => open(address) as unknown as SignalingSocket,
    browserId: () => Promise.resolve(`${name}-1234567890123456`),
    findAddress: (type) => Promise.resolve(type === 'host' ? '3f0c.local' : null),
    connectPeer: connectFake,
    connectServer: (attempt) =>
      connectThroughServer({
        ...attempt,
        openSocket: (address) => open(address) as unknown as LinkSocket,
        crypto: webcrypto as unknown as Crypto,
      }),
    onreport: (report) => reports.push(report),
    ...options,
  });
  ended.push(() => check.close());
  const latest = (): NetworkReport => reports.at(-1)!;
  return { check, report: latest, advice: () => networkAdviceFor(latest()) };
}

type Tab = ReturnType<typeof tab>;

/** Opens the pages one after the other. Resolves when the last has done its checks. */
async function openAll(...tabs: Tab[]): Promise<void> {
  for (const { check } of tabs) await check.run();
}

const measured = { roundTripMs: expect.any(Number) as number, bytesPerSecond: expect.any(Number) as number };

test('a tab alone reports its own checks, and waits for another tab', async () => {
  const ada = tab(await serverWith());
  await openAll(ada);
  expect(ada.report()).toEqual({
    page: { verdict: 'works', about: 'secure' },
    socket: { verdict: 'works', about: 'answered', roundTripMs: measured.roundTripMs },
    addresses: { verdict: 'works', about: 'names' },
    stun: { verdict: 'not-tried', about: 'none' },
    turn: { verdict: 'not-tried', about: 'none' },
    pairs: [],
  });
  expect(ada.advice()).toBe('alone');
});

test('two tabs measure a data channel and a link through the server, and both know the results', async () => {
  const server = await serverWith();
  const [ada, bob] = [tab(server, { name: 'ada' }), tab(server, { name: 'bob' })];
  await openAll(ada, bob);
  const pair = {
    isSameBrowser: false,
    direct: { verdict: 'works', about: 'direct', ...measured },
    server: { verdict: 'works', about: 'encrypted', ...measured },
  };
  await expect.poll(() => ada.report().pairs, SOON).toEqual([{ ...pair, name: 'bob' }]);
  expect(bob.report().pairs).toEqual([{ ...pair, name: 'ada' }]);
  expect(ada.report().pairs[0]!.server).toEqual(bob.report().pairs[0]!.server);
  expect([ada.advice(), bob.advice()]).toEqual(['direct', 'direct']);
});

test('without WebRTC between two tabs, the link through the server works', async () => {
  const server = await serverWith();
  const [ada, bob] = ['ada', 'bob'].map((name) => tab(server, { name, connectPeer: connectNever }));
  await openAll(ada!, bob!);
  await expect.poll(() => ada!.advice(), SOON).toBe('isolated');
  expect(bob!.report().pairs[0]).toMatchObject({
    direct: { verdict: 'fails', about: 'no-connection' },
    server: { verdict: 'works', about: 'encrypted' },
  });
});

test('on an insecure page, the link through the server is not encrypted', async () => {
  const server = await serverWith();
  const insecure = { getRandomValues: webcrypto.getRandomValues.bind(webcrypto) } as unknown as Crypto;
  const connectClear: NetworkCheckOptions['connectServer'] = (attempt) =>
    connectThroughServer({
      ...attempt,
      openSocket: (address) => open(address) as unknown as LinkSocket,
      crypto: insecure,
    });
  const tabs = ['ada', 'bob'].map((name) => tab(server, { name, isSecure: false, connectServer: connectClear }));
  await openAll(...tabs);
  expect(tabs[1]!.report()).toMatchObject({
    page: { about: 'insecure' },
    pairs: [{ server: { verdict: 'works', about: 'clear' } }],
  });
});

test.each([
  ['off', connectFake, 'direct', { direct: { verdict: 'works' }, server: { verdict: 'not-tried', about: 'off' } }],
  ['off', connectNever, 'off', { direct: { verdict: 'fails' }, server: { verdict: 'not-tried', about: 'off' } }],
  [
    'only',
    connectFake,
    'only-server',
    { direct: { verdict: 'not-tried', about: 'only-server' }, server: { verdict: 'works' } },
  ],
] as const)('with --server-links %s, the pair reports it (case %#)', async (serverLinks, connectPeer, advice, pair) => {
  const server = await serverWith({ serverLinks });
  const [ada, bob] = ['ada', 'bob'].map((name) => tab(server, { name, connectPeer }));
  await openAll(ada!, bob!);
  expect(bob!.report().pairs).toMatchObject([pair]);
  expect(bob!.advice()).toBe(advice);
});

test('a newcomer links to two tabs, and prefers tabs of other browsers', async () => {
  const server = await serverWith();
  const others = ['ada', 'bob'].map((name) => tab(server, { name }));
  const sister = tab(server, { name: 'sister', browserId: sameBrowser });
  const dora = tab(server, { name: 'dora', browserId: sameBrowser });
  await openAll(...others, sister, dora);
  expect(dora.report().pairs.map(({ name, isSameBrowser }) => ({ name, isSameBrowser }))).toEqual([
    { name: 'ada', isSameBrowser: false },
    { name: 'bob', isSameBrowser: false },
  ]);
});

test('the results of a reloaded tab replace its previous results', async () => {
  const server = await serverWith();
  const [ada, bob, again] = [tab(server, { name: 'ada' }), tab(server, { name: 'bob' }), tab(server, { name: 'bob' })];
  await openAll(ada, bob);
  await expect.poll(() => ada.advice(), SOON).toBe('direct');
  bob.check.close();
  await again.check.run();
  await expect.poll(() => ada.report().pairs, SOON).toMatchObject([{ name: 'bob', direct: { verdict: 'works' } }]);
});

test('a pair is forgotten if its other tab leaves before the checks are done', async () => {
  const server = await serverWith();
  const [ada, bob] = ['ada', 'bob'].map((name) => tab(server, { name, connectPeer: connectForever }));
  await openAll(ada!);
  void bob!.check.run();
  await expect.poll(() => ada!.report().pairs, SOON).toHaveLength(1);
  bob!.check.close();
  await expect.poll(() => ada!.report().pairs, SOON).toEqual([]);
});

test('a server that does not answer is reported, and STUN and TURN are not tried', async () => {
  const server = await serverWith();
  await server.close();
  const ada = tab(server);
  await openAll(ada);
  expect(ada.report()).toMatchObject({
    socket: { verdict: 'fails', about: 'no-answer' },
    stun: { verdict: 'not-tried', about: 'no-server' },
    turn: { verdict: 'not-tried', about: 'no-server' },
  });
  expect(ada.advice()).toBe('unreachable');
});

test('a server that refuses the page is not reported as unreachable', async () => {
  const server = await serverWith({ limits: { roomCapacity: 1 } });
  const closed = createDeferred();
  const openSocket: NetworkCheckOptions['openSocket'] = (url) =>
    open(url).on('close', () => closed.resolve()) as unknown as SignalingSocket;
  const [ada, bob] = [tab(server, { name: 'ada' }), tab(server, { name: 'bob', openSocket })];
  await openAll(ada, bob);
  await closed.promise;
  const message = expect.stringContaining('This room is full (1 members).') as string;
  expect(bob.report()).toMatchObject({
    socket: { verdict: 'fails', about: 'refused', message },
    stun: { verdict: 'not-tried', about: 'no-server' },
  });
  expect(bob.advice()).toBe('refused');
});

test('STUN and TURN work if the browser finds an address by them', async () => {
  const ice = { stun: ['stun:a:3478'], turn: ['turn:a:3478'], turnSecret: 'secret', relayOnly: false };
  const ada = tab(await serverWith({ ice }), {
    findAddress: (type) => Promise.resolve(type === 'srflx' ? '203.0.113.5' : null),
  });
  await openAll(ada);
  expect(ada.report()).toMatchObject({
    addresses: { verdict: 'fails', about: 'none' },
    stun: { verdict: 'works', about: 'found' },
    turn: { verdict: 'fails', about: 'no-answer' },
  });
});

test('members of the room of network checks can only exchange signals', async () => {
  const server = await serverWith();
  const ada = tab(server, { name: 'ada' });
  await openAll(ada);
  const guest = new TestMember(server);
  await guest.join(NETWORK_CHECK_ROOM, 'guest');
  const { hostKey } = await guest.next('admitted');
  expect(hostKey).toBe(null);
  ada.check.close();
  await guest.next('room', ({ members }) => members.length === 1);
  // The guest is the oldest member, which is the host in other rooms.
  await guest.send({ type: 'lock', isLocked: true });
  ended.push(() => guest.socket.close());
  const bob = tab(server, { name: 'bob' });
  // The guest does not answer, so the checks take long.
  void bob.check.run();
  await expect.poll(() => bob.report().socket.verdict, SOON).toBe('works');
});
