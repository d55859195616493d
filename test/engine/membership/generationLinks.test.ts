/**
 * The links of one generation. The test controls the ranks' signals and connections, and shows what
 * happens if connections are dead.
 */
import { describe, expect, test, vi } from 'vitest';
import { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { GenerationLinks } from '../../../src/engine/membership/generationLinks.ts';
import { LINKING_TIMEOUT_MS } from '../../../src/engine/membership/generationLink.ts';
import type { PeerConnector } from '../../../src/engine/membership/generationLinkOptions.ts';
import { LinkPool } from '../../../src/engine/membership/linkPool.ts';
import type { RosterEntry } from '../../../src/protocol/room.ts';
import type { Link } from '../../../src/transport/link.ts';
import { createMemoryLinkPair } from '../../../src/transport/memoryLink.ts';
import { connectThroughServer } from '../../../src/transport/serverLink.ts';
import { LinkAcrossGenerations } from '../../../src/transport/linkAcrossGenerations.ts';
import { createDeferred, type Deferred } from '../../../src/util/deferred.ts';
import { PeerGoneError, TimeoutError } from '../../../src/util/errors.ts';
import { ManualClock } from '../../manualClock.ts';
import { LinkRelay } from '../../transport/linkRelay.ts';

const GENERATION = 7;
/** Milliseconds that a signal takes. */
const SIGNAL_MS = 10;

/** The connection between ranks 0 and 2 that the previous generation has left. */
type Between = 'nothing' | 'a connection' | 'an end at rank 0' | 'an end at rank 2' | 'two dead ends';

/** Lets pending promises and microtasks settle. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

interface World {
  links: GenerationLinks[];
  groups: ProcessGroup[];
  /** Whether the server forwards signals. */
  signals: { arrive: boolean };
  /** Advances time and waits until its effects have happened. */
  pass: (ms: number) => Promise<void>;
}

/** Opens a ring of at least five ranks, in which ranks 0 and 2 are not neighbours. */
async function openWorld(between: Between, { isReversed = false, ranks = 5 } = {}): Promise<World> {
  const clock = new ManualClock();
  const members = Array.from({ length: ranks }, (_, rank): RosterEntry => {
    const place = isReversed ? ranks - 1 - rank : rank;
    return { member: `member-${place}`, name: 'tab', device: null, browser: rank, rank: null };
  });
  const pools = members.map(() => new LinkPool(() => {}));
  const stand = (rank: number, peer: number, link: Link): void =>
    pools[rank]!.put(members[peer]!.member, new LinkAcrossGenerations(link));
  const [toTwo, toZero] = createMemoryLinkPair();
  const [nowhere] = createMemoryLinkPair();
  if (between === 'a connection' || between === 'an end at rank 0' || between === 'two dead ends') stand(0, 2, toTwo);
  if (between === 'a connection' || between === 'an end at rank 2') stand(2, 0, toZero);
  if (between === 'two dead ends') stand(2, 0, nowhere);

  const signals = { arrive: true };
  const offers: { initiator: Deferred<Link>; other: Deferred<Link> | null }[] = [];
  const connectPeer: PeerConnector = ({ initiator, onsignal }) => {
    const link = createDeferred<Link>();
    link.promise.catch(() => {});
    if (initiator) {
      const sdp = String(offers.push({ initiator: link, other: null }) - 1);
      queueMicrotask(() => onsignal({ type: 'offer', sdp }));
    }
    return {
      link: link.promise,
      signal: (signal) => {
        if (signal.type !== 'offer' && signal.type !== 'answer') return;
        const offer = offers[Number(signal.sdp)]!;
        if (signal.type === 'offer') {
          offer.other = link;
          return onsignal({ type: 'answer', sdp: signal.sdp });
        }
        const [a, b] = createMemoryLinkPair();
        offer.initiator.resolve(a);
        offer.other!.resolve(b);
      },
      abort: () => link.reject(new PeerGoneError('Aborted.')),
    };
  };

  const links: GenerationLinks[] = members.map(
    ({ member }, rank) =>
      new GenerationLinks({
        ...{ room: 'K7F3QX', generation: GENERATION, rank, members, iceServers: [], connectPeer },
        ...{
          connectTab: null,
          connectServer: null,
          serverLine: null,
          pool: pools[rank]!,
          relayed: [],
          served: [],
          relayOnly: false,
          isFixed: false,
          clock,
        },
        doesOneWork: () => Promise.resolve(false),
        server: () => ({
          isOpen: true,
          send: (message) => {
            if (message.type !== 'signal' || !signals.arrive) return;
            const { to, attempt, signal } = message;
            const peer = members.findIndex((one) => one.member === to);
            clock.after(SIGNAL_MS, () => links[peer]!.signal({ from: member, attempt, signal }));
          },
        }),
      }),
  );
  const pass = async (ms: number): Promise<void> => {
    await settle();
    for (let rest = ms; rest > 0; rest -= SIGNAL_MS) {
      clock.advance(Math.min(rest, SIGNAL_MS));
      await settle();
    }
  };
  const opening = Promise.all(links.map((each) => each.open()));
  await pass(5 * SIGNAL_MS);
  const groups = (await opening).map(({ mesh }) => new ProcessGroup(mesh, { clock, timeoutMs: 30_000 }));
  return { links, groups, signals, pass };
}

/** Sends a number from one rank to another. `outcome` tells what has happened to it. */
function talk(from: ProcessGroup, to: ProcessGroup): { outcome: string } {
  const talking = { outcome: 'has not arrived' };
  const into = new Float32Array(1);
  Promise.all([from.isend(Float32Array.of(1), to.rank), to.irecv(into, from.rank)]).then(
    () => (talking.outcome = `arrived: ${into[0]}`),
    (error: unknown) => (talking.outcome = String(error)),
  );
  return talking;
}

const BETWEEN: Between[] = ['nothing', 'a connection', 'an end at rank 0', 'an end at rank 2', 'two dead ends'];
const SENDS: [from: number, to: number][][] = [
  [[0, 2]],
  [[2, 0]],
  [
    [0, 2],
    [2, 0],
  ],
];
const CASES = BETWEEN.flatMap((between) =>
  [false, true].flatMap((isReversed) => SENDS.map((sends) => ({ between, isReversed, sends }))),
);

describe('GenerationLinks', () => {
  test.each(CASES)(
    'links ranks 0 and 2 at their first send ($sends) if the previous generation has left $between (reversed ids: $isReversed)',
    async ({ between, isReversed, sends }) => {
      const { groups, links, pass } = await openWorld(between, { isReversed });
      const talks = sends.map(([from, to]) => talk(groups[from]!, groups[to]!));
      await pass(4_000);
      expect(talks.map(({ outcome }) => outcome)).toEqual(sends.map(() => 'arrived: 1'));
      for (const each of links) each.close(new PeerGoneError('The test is over.'));
    },
  );

  const candidate = { candidate: 'candidate:1 1 udp 1 192.0.2.1 9 typ host', sdpMid: '0', sdpMLineIndex: 0 };
  test.each([
    ['a candidate', 1, { type: 'candidate', candidate }],
    // Even ids are those of attempts of the member with the lower id, so this is an answer.
    ['the answer', 0, { type: 'server', channel: '0'.repeat(32), key: null }],
  ] as const)(
    'gives a link on demand its full deadline, even if %s of an earlier attempt has already arrived',
    async (_, attempt, signal) => {
      const { groups, links, signals, pass } = await openWorld('nothing');
      links[0]!.signal({ from: 'member-2', attempt, signal });
      await pass(13_000);
      // The first attempt fails after some seconds, and the next attempt succeeds.
      signals.arrive = false;
      const talking = talk(groups[0]!, groups[2]!);
      await pass(2_000);
      signals.arrive = true;
      await pass(5_000);
      expect(talking.outcome).toBe('arrived: 1');
    },
  );

  test('links to a rank whose old connection proves dead while the new link is queued behind other links', async () => {
    const { groups, signals, pass } = await openWorld('two dead ends', { ranks: 8 });
    // These links are opened only by their second attempts.
    signals.arrive = false;
    const talks = [3, 4, 5, 6, 2].map((peer) => talk(groups[0]!, groups[peer]!));
    await pass(4_000);
    signals.arrive = true;
    await pass(4_000);
    expect(talks.map(({ outcome }) => outcome)).toEqual(talks.map(() => 'arrived: 1'));
  });

  test('links all ranks through the server, and names the neighbours that are linked that way', async () => {
    const clock = new ManualClock();
    const relay = new LinkRelay();
    const members = [0, 1, 2, 3].map((rank): RosterEntry => {
      return { member: `member-${rank}`, name: 'tab', device: null, browser: rank, rank: null };
    });
    const links: GenerationLinks[] = members.map(
      ({ member }, rank) =>
        new GenerationLinks({
          ...{ room: 'K7F3QX', generation: GENERATION, rank, members, iceServers: [], clock },
          ...{ connectPeer: null, connectTab: null, relayed: [], served: [], relayOnly: false, isFixed: false },
          connectServer: (attempt) =>
            connectThroughServer({
              ...{ ...attempt, server: 'https://peergrad.example', room: 'K7F3QX', token: 'token-of-a-member' },
              ...{ openSocket: relay.openSocket, crypto },
            }),
          serverLine: { areAll: true, bytesPerSecond: 1e6 },
          pool: new LinkPool(() => {}),
          doesOneWork: () => Promise.resolve(false),
          server: () => ({
            isOpen: true,
            send: (message) => {
              if (message.type !== 'signal') return;
              const { to, attempt, signal } = message;
              links[members.findIndex((one) => one.member === to)]!.signal({ from: member, attempt, signal });
            },
          }),
        }),
    );
    const opened = await Promise.all(links.map((each) => each.open()));
    const groups = opened.map(({ mesh }) => new ProcessGroup(mesh, { clock, timeoutMs: 30_000 }));
    expect(groups[0]!.serverLine).toEqual({ areAll: true, bytesPerSecond: 1e6 });
    const routes = await Promise.all(
      groups.map(async (group, rank) => (await group.describeLink((rank + 1) % 4))?.route),
    );
    expect(routes).toEqual(['server', 'server', 'server', 'server']);
    expect(links.map(({ servedNeighbours }) => servedNeighbours.toSorted())).toEqual([
      ['member-1', 'member-3'],
      ['member-0', 'member-2'],
      ['member-1', 'member-3'],
      ['member-0', 'member-2'],
    ]);
    // The link of ranks 0 and 2 is opened on demand.
    const talking = talk(groups[2]!, groups[0]!);
    await vi.waitFor(() => expect(talking.outcome).toBe('arrived: 1'), { timeout: 20_000 });
    for (const each of links) each.close(new PeerGoneError('The test is over.'));
  });

  test('fails with an error that names all unreachable neighbours', async () => {
    const clock = new ManualClock();
    const members = [0, 1, 2, 3].map((rank): RosterEntry => {
      return { member: `member-${rank}`, name: 'tab', device: null, browser: rank, rank: null };
    });
    const links = new GenerationLinks({
      ...{
        room: 'K7F3QX',
        generation: GENERATION,
        rank: 1,
        members,
        iceServers: [],
        connectTab: null,
        connectServer: null,
        serverLine: null,
      },
      connectPeer: () => ({ link: createDeferred<Link>().promise, signal: () => {}, abort: () => {} }),
      ...{ pool: new LinkPool(() => {}), relayed: [], served: [], relayOnly: false, clock, server: () => null },
      ...{ isFixed: false, doesOneWork: () => Promise.resolve(false) },
    });
    const failure = links.open().catch((error: unknown) => error);
    await settle();
    clock.advance(LINKING_TIMEOUT_MS);
    const error = (await failure) as TimeoutError;
    expect(error).toBeInstanceOf(TimeoutError);
    expect(error.context).toMatchObject({ rank: 1, missing: [0, 2] });
    expect(error.message).toMatch(/rank 1 could not connect to rank 0 .*rank 1 could not connect to rank 2 /i);
    links.close(new PeerGoneError('The test is over.'));
  });
});
