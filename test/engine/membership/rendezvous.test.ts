/**
 * A member's connection to the signaling server, and its reports. The test simulates the server and
 * the other ranks.
 */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DIRECT_HEAD_START_MS, SERVER_LINK_ATTEMPT_DELAY_MS } from '../../../src/engine/membership/generationLink.ts';
import type { PeerConnector } from '../../../src/engine/membership/generationLinkOptions.ts';
import type { RankStateReport } from '../../../src/engine/membership/membership.ts';
import type { RendezvousOptions } from '../../../src/engine/membership/rendezvousOptions.ts';
import { Rendezvous } from '../../../src/engine/membership/rendezvous.ts';
import {
  PROTOCOL_VERSION,
  type ClientMessage,
  type RefusalCode,
  type ServerLinkMode,
  type ServerMessage,
} from '../../../src/protocol/control.ts';
import type { RosterEntry } from '../../../src/protocol/room.ts';
import { DEFAULT_JOB, parseJob } from '../../../src/spec/job.ts';
import { createFrame, emptyFrameHeader, FrameKind } from '../../../src/protocol/frame.ts';
import { performHandshake, type HelloMessage } from '../../../src/transport/handshake.ts';
import type { Link } from '../../../src/transport/link.ts';
import { createMemoryLinkPair } from '../../../src/transport/memoryLink.ts';
import { createDeferred, type Deferred } from '../../../src/util/deferred.ts';
import { PeerGoneError, TimeoutError } from '../../../src/util/errors.ts';
import { DeltaEncoder } from '../../../signaling/deltaEncoder.ts';
import { ManualClock } from '../../manualClock.ts';
import { ThreadActivity } from '../../../src/util/activity.ts';

const MEMBER = 'member-0000';
const JOIN = { type: 'join', version: PROTOCOL_VERSION, name: 'Ada', room: 'K7F3QX' } as const;
const CREATE: RendezvousOptions['hello'] = {
  ...{ type: 'create', version: PROTOCOL_VERSION, name: 'Ada' },
  ...{ job: DEFAULT_JOB, startAt: null, nodes: { min: 1, max: 8 } },
};

/** Lets pending promises and microtasks settle. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** The member's end of a connection. */
class FakeSocket extends EventTarget {
  readonly OPEN = 1;
  readyState: 0 | 1 | 2 | 3 = 0;
  readonly sent: ClientMessage[] = [];
  readonly #encoder = new DeltaEncoder();

  constructor() {
    super();
    sockets.push(this);
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text) as ClientMessage);
  }

  /** Begins the closing handshake. {@link closed} completes it. */
  close(): void {
    this.readyState = 2;
  }

  opened(): void {
    this.readyState = this.OPEN;
    this.dispatchEvent(new Event('open'));
  }

  closed(): void {
    this.readyState = 3;
    this.dispatchEvent(new Event('close'));
  }

  says(message: ServerMessage): void {
    this.dispatchEvent(new MessageEvent('message', { data: this.#encoder.encode(message) }));
  }

  admits(heartbeatMs = 600_000, serverLinks: ServerLinkMode = 'off'): void {
    this.says({
      ...{ type: 'admitted', member: MEMBER, token: 't'.repeat(20), hostKey: null, room: 'K7F3QX' },
      ...{ iceServers: [], serverLinks, bootId: 'boot', heartbeatMs },
    });
    this.says({
      ...{ type: 'room', phase: 'FORMING', run: 0, generation: 0, hosts: [MEMBER], members: [], spectators: [] },
      hasTrained: false,
      ...{
        job: DEFAULT_JOB,
        startAt: null,
        nodes: { min: 1, max: 8 },
        isLocked: false,
        isPausedByHost: false,
        waitingFor: 0,
      },
    });
  }

  refuses(code: RefusalCode): void {
    this.says({ type: 'refused', code, message: `Refused: ${code}.` });
  }
}

const GENERATION = 3;
/**
 * The members of the ring. The tested member is rank 2. Its id is the lowest, so it initiates all
 * its links.
 */
const RING = ['member-1111', 'member-2222', MEMBER, 'member-3333'].map((member): RosterEntry => ({
  member,
  name: 'tab',
  device: { backend: 'cpu', adapter: '' },
  browser: 0,
  rank: null,
}));
const RANK = 2;

let clock: ManualClock;
/** All connections of the member, in the order in which they were opened. */
let sockets: FakeSocket[];
/** The messages of fatal errors. */
let fatal: string[];
/** The messages of suspensions. */
let suspended: string[];
let rendezvous: Rendezvous;
/** How long the machine has slept, milliseconds. No timer fires during that time. */
let sleptMs: number;
const now = (): number => clock.now() + sleptMs;

beforeEach(() => {
  clock = new ManualClock();
  sleptMs = 0;
  [sockets, fatal, suspended] = [[], [], []];
});

afterEach(() => rendezvous.leave());

function never(): never {
  throw new Error('No run begins in this test.');
}

/** Makes the member connect. Resolves with its first connection when that is open. */
async function begin(options: Partial<RendezvousOptions> = {}): Promise<FakeSocket> {
  rendezvous = new Rendezvous({
    ...{ server: 'http://server', hello: JOIN, connectPeer: never, connectTab: never },
    ...{ clock: { now, after: (ms, fn) => clock.after(ms, fn) }, today: now, activity: new ThreadActivity(clock) },
    ...{ random: () => 0, openSocket: () => new FakeSocket(), browserId: () => Promise.resolve('b'.repeat(16)) },
    ...{ onadmitted: () => {}, onroom: () => {}, onstate: () => {}, onended: () => {}, onrefused: () => {} },
    ...{ enter: never, train: never, scopeOf: () => 'run' as const },
    onsuspended: ({ message }) => suspended.push(message),
    onfatal: (error) => fatal.push(error.message),
    ...options,
  });
  void rendezvous.start();
  await settle();
  return connection(1);
}

/**
 * Advances time until the member has opened the connection with this number. Resolves with that
 * connection.
 */
async function connection(number: number): Promise<FakeSocket> {
  for (let waited = 0; sockets.length < number && waited < 20_000; waited += 1000) {
    clock.advance(1000);
    await settle();
  }
  expect(sockets).toHaveLength(number);
  const socket = sockets[number - 1]!;
  socket.opened();
  await settle();
  return socket;
}

/** Returns whether the member opens no other connection for a while. */
async function isQuiet(): Promise<boolean> {
  const before = sockets.length;
  clock.advance(30_000);
  await settle();
  return sockets.length === before;
}

describe('a newcomer', () => {
  test.each([
    ['its room moves to another server', (socket: FakeSocket) => socket.refuses('server-closing')],
    ['the connection is lost', (socket: FakeSocket) => socket.closed()],
  ])('requests admission again if %s before its admission', async (_, lose) => {
    lose(await begin());
    const second = await connection(2);
    expect(fatal).toEqual([]);
    expect(second.sent).toEqual([expect.objectContaining(JOIN)]);
    second.admits();
    expect(await isQuiet()).toBe(true);
  });

  test.each(['mismatch', 'room-full'] as const)(
    'requests admission again after the refusal %s, because its own earlier request may be the cause',
    async (code) => {
      (await begin()).closed();
      (await connection(2)).refuses(code);
      const third = await connection(3);
      expect(fatal).toEqual([]);
      expect(third.sent).toEqual([expect.objectContaining(JOIN)]);
      third.admits();
      expect(await isQuiet()).toBe(true);
    },
  );

  test('waits for a room that moves to another server until its members have restored it', async () => {
    (await begin()).refuses('server-closing');
    (await connection(2)).refuses('no-room');
    (await connection(3)).refuses('rate-limited');
    (await connection(4)).admits();
    expect(fatal).toEqual([]);
  });

  test('gives up after it has been refused for a minute because its room moves', async () => {
    (await begin()).refuses('server-closing');
    for (let number = 2; fatal.length === 0; number++) (await connection(number)).refuses('server-closing');
    expect(fatal).toEqual(['Refused: server-closing.']);
    expect(clock.now()).toBeGreaterThan(60_000);
    expect(clock.now()).toBeLessThan(80_000);
  });

  test.each(['no-room', 'rate-limited', 'room-full', 'mismatch'] as const)(
    'gives up immediately if its first request is refused with %s',
    async (code) => {
      (await begin()).refuses(code);
      expect(fatal).toEqual([`Refused: ${code}.`]);
      expect(await isQuiet()).toBe(true);
    },
  );

  test('that opens a room does not try again after a lost connection', async () => {
    (await begin({ hello: CREATE })).closed();
    expect(fatal).toEqual(['The connection to the signaling server is closed.']);
    expect(await isQuiet()).toBe(true);
  });
});

describe('a member that reconnects', () => {
  test('tries again later if the server limits reconnections', async () => {
    const first = await begin();
    first.admits();
    first.closed();
    (await connection(2)).refuses('rate-limited');
    const third = await connection(3);
    expect(third.sent).toEqual([expect.objectContaining({ type: 'reconnect', member: MEMBER })]);
    third.admits();
    expect(fatal).toEqual([]);
  });

  test('does not reconnect if it was refused because it sent too fast', async () => {
    const first = await begin();
    first.admits();
    first.refuses('rate-limited');
    expect(fatal).toEqual(['Refused: rate-limited.']);
  });

  test('keeps its new connection when the previous one closes late', async () => {
    const first = await begin();
    first.admits();
    first.refuses('server-closing');
    const second = await connection(2);
    second.admits();
    first.closed();
    expect(second.readyState).toBe(second.OPEN);
    expect(await isQuiet()).toBe(true);
  });

  test('ignores an admission over a connection that it has already given up', async () => {
    const onadmitted = vi.fn();
    const first = await begin({ onadmitted });
    first.admits();
    first.closed();
    const second = await connection(2);
    // The second connection does not answer in time.
    const third = await connection(3);
    second.admits();
    expect(onadmitted).toHaveBeenCalledTimes(1);
    third.admits();
    expect(onadmitted).toHaveBeenCalledTimes(2);
  });
});

describe('a member whose machine wakes up', () => {
  const HEARTBEAT_MS = 2_000;
  const HOUR_MS = 3_600_000;

  test.each([
    ['is told so', 0, () => rendezvous.wake()],
    ['notices that its timers are late', HEARTBEAT_MS, () => (sleptMs = HOUR_MS)],
  ])('replaces a dead connection within two heartbeats after it %s', async (_, after, wake) => {
    const first = await begin();
    first.admits(HEARTBEAT_MS);
    wake();
    clock.advance(after);
    // Several events may report the same awakening.
    if (after === 0) wake();
    expect(first.sent.filter(({ type }) => type === 'heartbeat')).toHaveLength(2);
    clock.advance(2 * HEARTBEAT_MS - 1);
    expect(first.readyState).toBe(first.OPEN);
    clock.advance(1);
    expect(first.readyState).not.toBe(first.OPEN);
    const second = await connection(2);
    expect(second.sent).toEqual([expect.objectContaining({ type: 'reconnect', member: MEMBER })]);
  });

  test('keeps a connection that works', async () => {
    const first = await begin();
    first.admits(HEARTBEAT_MS);
    sleptMs = HOUR_MS;
    for (let i = 0; i < 5; i++) {
      rendezvous.wake();
      clock.advance(HEARTBEAT_MS);
      first.says({ type: 'heartbeat' });
    }
    await settle();
    expect([first.readyState, sockets.length]).toEqual([first.OPEN, 1]);
  });

  test('immediately tries to reconnect, and gives up only after a minute awake', async () => {
    const first = await begin();
    first.admits(HEARTBEAT_MS);
    first.closed();
    for (let number = 2; clock.now() < 50_000; number++) (await connection(number)).refuses('server-closing');
    sleptMs = HOUR_MS;
    const tried = sockets.length;
    rendezvous.wake();
    await settle();
    expect(sockets).toHaveLength(tried + 1);
    const awakeSince = clock.now();
    sockets.at(-1)!.closed();
    while (fatal.length === 0) {
      clock.advance(1000);
      await settle();
      for (const socket of sockets) if (socket.readyState === 0) socket.closed();
      await settle();
    }
    expect(clock.now() - awakeSince).toBeGreaterThan(60_000);
    expect(clock.now() - awakeSince).toBeLessThan(80_000);
  });

  test('does not count the time asleep, even if no event reports the sleep', async () => {
    const first = await begin();
    first.admits();
    first.closed();
    sleptMs = HOUR_MS;
    const second = await connection(2);
    second.refuses('server-closing');
    (await connection(3)).admits();
    expect(fatal).toEqual([]);
  });
});

describe('a rank whose training fails', () => {
  let socket: FakeSocket;
  let training: Deferred<RankStateReport>;
  /** The other ends of the member's links. */
  let ends: [member: string, link: Link][];

  /** Returns the member's reports about its generation since it began training. */
  const reports = (): ClientMessage[] =>
    socket.sent.filter(({ type }) => ['broken', 'late', 'failed', 'finished'].includes(type));

  beforeEach(async () => {
    const attempts: Deferred<Link>[] = [];
    const connectPeer: PeerConnector = ({ onsignal }) => {
      const link = createDeferred<Link>();
      const sdp = String(attempts.push(link) - 1);
      queueMicrotask(() => onsignal({ type: 'offer', sdp }));
      return { link: link.promise, signal: () => {}, abort: () => {} };
    };
    training = createDeferred();
    ends = [];
    socket = await begin({
      ...{ connectPeer, enter: () => Promise.resolve({ step: 0, stateHash: 'state' }), train: () => training.promise },
    });
    socket.admits();
    socket.says({
      ...{ type: 'prepare', generation: GENERATION, run: 1, members: RING, job: parseJob({ transport: 'webrtc' }) },
      ...{ relayed: [], separated: [], served: [] },
    });
    await settle();
    for (const message of socket.sent) {
      if (message.type !== 'signal' || message.signal.type !== 'offer') continue;
      const [mine, theirs] = createMemoryLinkPair();
      attempts[Number(message.signal.sdp)]!.resolve(mine);
      const helloOf = (rank: number): HelloMessage => ({
        room: 'K7F3QX',
        generation: GENERATION,
        member: RING[rank]!.member,
        rank,
      });
      const peer = RING.findIndex(({ member }) => member === message.to);
      ends.push([message.to, theirs]);
      await performHandshake(theirs, helloOf(peer), helloOf(RANK), { timeoutMs: 1000, clock });
    }
    await settle();
    socket.says({ type: 'sync', generation: GENERATION });
    await settle();
    socket.says({ type: 'go', generation: GENERATION });
    await settle();
    expect(socket.sent.map(({ type }) => type)).toEqual(expect.arrayContaining(['linked', 'synced']));
  });

  test('waits half a second for the server, and then reports its lost link', async () => {
    training.reject(new PeerGoneError('Rank 2 lost its link to rank 1.', { rank: RANK, missing: [1] }));
    await settle();
    clock.advance(499);
    expect(reports()).toEqual([]);
    clock.advance(1);
    expect(reports()).toEqual([{ type: 'broken', generation: GENERATION, peers: ['member-2222'] }]);
  });

  test.each([
    ['a lost link', new PeerGoneError('Rank 1 lost its link to rank 0.', { rank: 1, missing: [0] }), 500],
    ['a missed deadline', new TimeoutError('Timed out: rank 1 waited.', { rank: 1, missing: [0] }), 0],
  ])(
    'lets another rank report %s of that rank, and later reports only that its own training failed',
    async (_, error, reportedAfterMs) => {
      training.reject(error);
      await settle();
      clock.advance(reportedAfterMs + 400);
      expect(reports()).toEqual([]);
      // The other rank may have left.
      clock.advance(100);
      expect(reports()).toEqual([
        { type: 'failed', generation: GENERATION, message: error.message, scope: 'generation' },
      ]);
    },
  );

  test('reports the other ranks that are named in its timeout error', async () => {
    training.reject(new TimeoutError('Timed out: rank 2 waited.', { rank: RANK, missing: [0, RANK, 3] }));
    await settle();
    expect(reports()).toEqual([{ type: 'late', generation: GENERATION, peers: ['member-1111', 'member-3333'] }]);
  });

  test('compares states in the next generation only after its training in the previous generation has ended', async () => {
    const begun = (): number[] =>
      socket.sent.flatMap((message) => (message.type === 'syncing' ? [message.generation] : []));
    expect(begun()).toEqual([GENERATION]);
    // The rank has no earlier work while its generation lasts.
    await rendezvous.freed();
    const next = GENERATION + 1;
    const members = RING.filter(({ member }) => member !== 'member-1111');
    const job = parseJob({ transport: 'webrtc' });
    socket.says({ type: 'prepare', generation: next, run: 1, members, job, relayed: [], separated: [], served: [] });
    await settle();
    for (const [peer, theirs] of ends) {
      const helloOf = (member: string): HelloMessage => {
        return { room: 'K7F3QX', generation: next, member, rank: members.findIndex((one) => one.member === member) };
      };
      await performHandshake(theirs, helloOf(peer), helloOf(MEMBER), { timeoutMs: 1000, clock });
    }
    await settle();
    socket.says({ type: 'sync', generation: next });
    await settle();
    let isFree = false;
    void rendezvous.freed().then(() => (isFree = true));
    await settle();
    expect([begun(), isFree]).toEqual([[GENERATION], false]);
    training.reject(new PeerGoneError('The generation is over.'));
    await settle();
    expect([begun(), isFree]).toEqual([[GENERATION, next], true]);
  });

  test('learns the reason when it is suspended, and then reports nothing to the server', async () => {
    socket.says({ type: 'suspended', run: 1, generation: GENERATION + 1, message: 'The others waited for it.' });
    expect(suspended).toEqual(['The others waited for it.']);
    training.reject(new PeerGoneError('The generation is over.'));
    await settle();
    clock.advance(5_000);
    expect(reports()).toEqual([]);
  });
});

describe('a rank whose links go through the server', () => {
  let socket: FakeSocket;
  let served: (Parameters<NonNullable<RendezvousOptions['connectServer']>>[0] & { link: Deferred<Link> })[];
  let direct: Deferred<Link>[];

  /** Connects with the given mode of the server. */
  const connect = async (mode: ServerLinkMode): Promise<void> => {
    [served, direct] = [[], []];
    socket = await begin({
      connectPeer: () => {
        const link = createDeferred<Link>();
        direct.push(link);
        return { link: link.promise, signal: () => {}, abort: () => {} };
      },
      connectServer: (options) => {
        const link = createDeferred<Link>();
        served.push({ ...options, link });
        return { link: link.promise, signal: () => {}, abort: () => {} };
      },
    });
    socket.admits(600_000, mode);
  };
  const prepare = (generation: number, pairs: [string, string][] = []): void => {
    const job = parseJob({ transport: 'webrtc' });
    socket.says({
      ...{ type: 'prepare', generation, run: 1, members: RING, job, relayed: [], separated: [], served: pairs },
    });
  };
  /** The other end's handshake. */
  const greet = async (theirs: Link, member: string, generation: number): Promise<void> => {
    const helloOf = (id: string): HelloMessage => {
      return { room: 'K7F3QX', generation, member: id, rank: RING.findIndex((one) => one.member === id) };
    };
    await performHandshake(theirs, helloOf(member), helloOf(MEMBER), { timeoutMs: 1000, clock });
  };
  /** Opens all attempts through the server. Resolves with their other ends. */
  const openServed = async (generation: number): Promise<Link[]> => {
    const ends = served.map(({ link }) => {
      const [mine, theirs] = createMemoryLinkPair();
      link.resolve(mine);
      return theirs;
    });
    for (const [index, theirs] of ends.entries()) await greet(theirs, served[index]!.peer, generation);
    await settle();
    return ends;
  };
  const linked = (): ClientMessage[] => socket.sent.filter(({ type }) => type === 'linked');

  test('reports the neighbours at the other ends of these links', async () => {
    await connect('only');
    prepare(GENERATION);
    await settle();
    const told = { server: 'http://server', room: 'K7F3QX', token: 't'.repeat(20), generation: GENERATION };
    expect(served).toEqual(
      ['member-2222', 'member-3333'].map((peer): unknown => expect.objectContaining({ ...told, member: MEMBER, peer })),
    );
    expect(direct).toEqual([]);
    await openServed(GENERATION);
    expect(linked()).toEqual([
      { type: 'linked', generation: GENERATION, served: expect.arrayContaining(['member-2222', 'member-3333']) },
    ]);
  });

  test.each([
    ['on', [['member-2222', MEMBER]], ['member-2222']],
    ['off', [['member-2222', MEMBER]], []],
  ] as const)(
    'with the mode %s and the served pairs %j, tries the server after a second for the neighbours %j',
    async (mode, pairs, begun) => {
      await connect(mode);
      prepare(
        GENERATION,
        pairs.map(([a, b]) => [a, b]),
      );
      await settle();
      clock.advance(DIRECT_HEAD_START_MS);
      await settle();
      expect(served.map(({ peer }) => peer)).toEqual(begun);
      expect(direct).toHaveLength(2);
    },
  );

  test.each([
    [{ min: 1, max: 8 }, ['member-2222']],
    [null, []],
  ])('in a room for %j ranks, has tried the server after 3 s for the neighbours %j', async (nodes, begun) => {
    await connect('on');
    socket.says({
      ...{ type: 'room', phase: 'LINKING', run: 1, generation: GENERATION, hosts: [MEMBER], members: [] },
      ...{ spectators: [], hasTrained: false, job: DEFAULT_JOB, startAt: null, nodes, isLocked: false },
      ...{ isPausedByHost: false, waitingFor: 0 },
    });
    prepare(GENERATION);
    await settle();
    const signal = { type: 'answer', sdp: '' } as const;
    socket.says({ type: 'signal', generation: GENERATION, from: 'member-2222', attempt: 0, signal });
    await settle();
    clock.advance(SERVER_LINK_ATTEMPT_DELAY_MS);
    await settle();
    socket.says({ type: 'pulses', pulses: [] });
    await settle();
    expect(served.map(({ peer }) => peer)).toEqual(begun);
  });

  test.each([true, false])(
    'links to a newcomer through the server after a second if the feed is served: %s',
    async (isServed) => {
      await connect('on');
      const members: [RosterEntry, RosterEntry] = [RING[RANK]!, { ...RING[3]!, browser: 1 }];
      socket.says({ type: 'feed', generation: GENERATION, run: 1, members, relayed: false, served: isServed });
      await settle();
      clock.advance(DIRECT_HEAD_START_MS);
      await settle();
      expect(served.map(({ peer }) => peer)).toEqual(isServed ? ['member-3333'] : []);
    },
  );

  test('uses direct connections in the next generation, and does not report the end of those that they replace', async () => {
    await connect('on');
    prepare(
      GENERATION,
      [1, 3].map((rank) => [MEMBER, RING[rank]!.member]),
    );
    await settle();
    clock.advance(DIRECT_HEAD_START_MS);
    await settle();
    const replaced = await openServed(GENERATION);
    const kept = direct.map((link) => {
      const [mine, theirs] = createMemoryLinkPair();
      link.resolve(mine);
      void theirs.send(createFrame(emptyFrameHeader(FrameKind.HELLO, GENERATION), 0));
      return theirs;
    });
    await settle();
    // This rank has the lower ids, so it reports the connections.
    expect(socket.sent.filter(({ type }) => type === 'direct')).toEqual(
      served.map(({ peer }) => ({ type: 'direct', generation: GENERATION, peer })),
    );
    prepare(GENERATION + 1, []);
    for (const [index, theirs] of kept.entries()) await greet(theirs, served[index]!.peer, GENERATION + 1);
    await settle();
    for (const link of replaced) link.close();
    await settle();
    clock.advance(5_000);
    expect(linked().slice(1)).toEqual([{ type: 'linked', generation: GENERATION + 1 }]);
    expect(socket.sent.filter(({ type }) => type === 'broken')).toEqual([]);
    kept[0]!.close();
    await settle();
    clock.advance(500);
    expect(socket.sent.filter(({ type }) => type === 'broken')).toEqual([
      { type: 'broken', generation: GENERATION + 1, peers: [served[0]!.peer] },
    ]);
  });

  test('replaces a link that stalls, reports it as broken, and needs no attempt in the next generation', async () => {
    await connect('on');
    prepare(GENERATION);
    await settle();
    const peers = ['member-2222', 'member-3333'];
    const ends: { mine: Link; theirs: Link }[] = [];
    for (const [index, peer] of peers.entries()) {
      const [mine, theirs] = createMemoryLinkPair();
      ends.push({ mine, theirs });
      direct[index]!.resolve(mine);
      await greet(theirs, peer, GENERATION);
    }
    await settle();
    ends[0]!.mine.onstall!(true);
    await settle();
    const [theirs] = await openServed(GENERATION);
    clock.advance(500);
    expect(socket.sent.filter(({ type }) => type === 'broken')).toEqual([
      { type: 'broken', generation: GENERATION, peers: [peers[0]] },
    ]);
    prepare(GENERATION + 1);
    await Promise.all([greet(theirs!, peers[0]!, GENERATION + 1), greet(ends[1]!.theirs, peers[1]!, GENERATION + 1)]);
    await settle();
    expect(linked().at(-1)).toEqual({ type: 'linked', generation: GENERATION + 1, served: [peers[0]] });
    expect([direct.length, served.length]).toEqual([2, 1]);
  });

  test.each([
    ['when the page wakes', async () => rendezvous.wake()],
    [
      'after a reconnect',
      async () => {
        socket.closed();
        socket = await connection(2);
        socket.admits(600_000, 'only');
      },
    ],
  ])('checks %s whether they answer, and reports those that do not', async (_, happen) => {
    await connect('only');
    prepare(GENERATION);
    await settle();
    for (const [index, { link, peer }] of served.entries()) {
      const [mine, theirs] = createMemoryLinkPair();
      link.resolve(Object.assign(mine, { answers: () => Promise.resolve(index === 0) }));
      await greet(theirs, peer, GENERATION);
    }
    await settle();
    await happen();
    await settle();
    // The server tells that no member computes.
    socket.says({ type: 'pulses', pulses: [] });
    await settle();
    clock.advance(500);
    expect(socket.sent.filter(({ type }) => type === 'broken')).toEqual([
      { type: 'broken', generation: GENERATION, peers: ['member-3333'] },
    ]);
  });
});
