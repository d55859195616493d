/** Both ends of an edge open a link. The test opens and breaks the memory links below it. */
import { describe, expect, test } from 'vitest';
import { LinkPool } from '../../../src/engine/membership/linkPool.ts';
import {
  GenerationLink,
  LINKING_TIMEOUT_MS,
  ON_DEMAND_TIMEOUT_FACTOR,
} from '../../../src/engine/membership/generationLink.ts';
import type { PeerConnector, TabConnector } from '../../../src/engine/membership/generationLinkOptions.ts';
import type { LinkSignal } from '../../../src/protocol/linkSignal.ts';
import type { HelloMessage } from '../../../src/transport/handshake.ts';
import type { Link } from '../../../src/transport/link.ts';
import { createMemoryLinkPair } from '../../../src/transport/memoryLink.ts';
import { createDeferred, type Deferred } from '../../../src/util/deferred.ts';
import { PeerGoneError, TimeoutError } from '../../../src/util/errors.ts';
import { ManualClock } from '../../manualClock.ts';

const alice: HelloMessage = { room: 'K7F3QX', generation: 3, member: 'alice-id', rank: 0 };
const bob: HelloMessage = { room: 'K7F3QX', generation: 3, member: 'bob-id-1', rank: 1 };

/** Lets pending promises and microtasks settle. */
const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

interface Attempt {
  link: Deferred<Link>;
  aborted: boolean;
  initiator: boolean;
}

/** One end's request to a broker. */
interface Asked {
  initiator: boolean;
  key: string;
  aborted: boolean;
}

interface PairOptions {
  /** Present if both are tabs of one browser. Tells what the browser's broker does. */
  broker?: 'joins' | 'does not answer' | 'is missing';
  relayOnly?: boolean;
  generation?: number;
  /** Connections of the previous generation. */
  pools?: { alice: LinkPool; bob: LinkPool };
}

/**
 * Two edges that send signals to each other. Attempt k of both edges opens if `opens(k)` is true.
 */
function pair(opens: (attempt: number) => boolean, options: PairOptions = {}) {
  const { broker, relayOnly = false, generation = alice.generation } = options;
  const { pools = { alice: new LinkPool(() => {}), bob: new LinkPool(() => {}) } } = options;
  const [self, peer] = [alice, bob].map((hello) => ({ ...hello, generation })) as [HelloMessage, HelloMessage];
  const clock = new ManualClock();
  const attempts: { alice: Attempt[]; bob: Attempt[] } = { alice: [], bob: [] };
  const connector =
    (mine: 'alice' | 'bob'): PeerConnector =>
    ({ initiator, onsignal }) => {
      const attempt: Attempt = { link: createDeferred(), aborted: false, initiator };
      attempts[mine].push(attempt);
      if (initiator) queueMicrotask(() => onsignal({ type: 'offer', sdp: 'offer' }));
      return {
        link: attempt.link.promise,
        signal: (signal: LinkSignal) => {
          if (signal.type === 'offer') return onsignal({ type: 'answer', sdp: 'answer' });
          const index = attempts.alice.length - 1;
          if (!opens(index)) return attempts.alice[index]!.link.reject(new PeerGoneError('The connection failed.'));
          const [a, b] = createMemoryLinkPair();
          attempts.alice[index]!.link.resolve(a);
          attempts.bob.at(-1)!.link.resolve(b);
        },
        abort: () => {
          attempt.aborted = true;
          attempt.link.reject(new PeerGoneError('Aborted.'));
        },
      };
    };
  const asked: Asked[] = [];
  const [aliceEnd, bobEnd] = createMemoryLinkPair();
  const connectTab: TabConnector = ({ initiator, key }) => {
    const wish = { initiator, key, aborted: false };
    asked.push(wish);
    const link = createDeferred<Link>();
    const meets = broker === 'joins' && asked.every((other) => other.key === key);
    if (meets) link.resolve(initiator ? aliceEnd : bobEnd);
    if (broker === 'is missing') link.reject(new PeerGoneError('This browser does not join its tabs.'));
    return {
      link: link.promise,
      signal: () => {},
      abort: () => {
        wish.aborted = true;
        link.reject(new PeerGoneError('Aborted.'));
      },
    };
  };
  const delayed = { isOne: false };
  const isDelayed = (): Promise<boolean> => Promise.resolve(delayed.isOne);
  const common = {
    ...{ iceServers: [], relayOnly, isServed: false, isFixed: false, clock, isDelayed, connectServer: null },
    connectTab: broker === undefined ? null : connectTab,
  };
  const edges: Record<'alice' | 'bob', GenerationLink> = {
    alice: new GenerationLink({
      ...{ ...common, self, peer, connect: connector('alice'), pool: pools.alice },
      send: (attempt, signal) => edges.bob.signal(attempt, signal),
    }),
    bob: new GenerationLink({
      ...{ ...common, self: peer, peer: self, connect: connector('bob'), pool: pools.bob },
      send: (attempt, signal) => edges.alice.signal(attempt, signal),
    }),
  };
  return { clock, attempts, asked, pools, delayed, ...edges };
}

describe('GenerationLink', () => {
  test('links both ends; the end with the lower member id initiates', async () => {
    const world = pair(() => true);
    const [a, b] = await Promise.all([world.alice.link(), world.bob.link()]);
    expect(world.attempts.alice.map(({ initiator }) => initiator)).toEqual([true]);
    expect(world.attempts.bob.map(({ initiator }) => initiator)).toEqual([false]);
    expect([a.state, b.state]).toEqual(['open', 'open']);
  });

  test('ends a failed attempt and starts another, with growing delays', async () => {
    const world = pair((attempt) => attempt === 2);
    const links = Promise.all([world.alice.link(), world.bob.link()]);
    for (const [made, backoff] of [
      [1, 250],
      [2, 500],
    ] as const) {
      await settle();
      expect(world.attempts.alice).toHaveLength(made);
      world.clock.advance(backoff - 1);
      expect(world.attempts.alice).toHaveLength(made);
      world.clock.advance(1);
    }
    await links;
    expect(world.attempts.alice).toHaveLength(3);
    expect(world.attempts.bob.map(({ aborted }) => aborted)).toEqual([true, true, false]);
  });

  test('ends an attempt that gets no answer', async () => {
    const world = pair(() => true);
    // Bob's edge never receives a signal, so it never starts.
    world.bob.signal = () => {};
    world.alice.link().catch(() => {});
    await settle();
    world.clock.advance(6_000);
    await settle();
    expect(world.attempts.alice[0]!.aborted).toBe(true);
    world.clock.advance(250);
    expect(world.attempts.alice).toHaveLength(2);
  });

  test('ignores signals of an earlier attempt', async () => {
    const world = pair((attempt) => attempt === 1);
    const links = Promise.all([world.alice.link(), world.bob.link()]);
    await settle();
    world.clock.advance(250);
    world.alice.signal(0, { type: 'answer', sdp: 'late' });
    world.bob.signal(0, { type: 'offer', sdp: 'late' });
    await links;
    expect(world.attempts.bob).toHaveLength(2);
  });

  test('fails with an error that names the unreachable rank, the last failure, and advice', async () => {
    const world = pair(() => false);
    const linking = world.alice.link();
    const failed = linking.catch((error: unknown) => error);
    await settle();
    world.clock.advance(LINKING_TIMEOUT_MS);
    const error = (await failed) as TimeoutError;
    expect(error).toBeInstanceOf(TimeoutError);
    expect(error.message).toMatch(/^Rank 0 could not connect to rank 1 within 14 s: The connection failed\. .*--turn/);
    expect(error.context.missing).toEqual([1]);
  });

  test('continues to wait while one end computes, and fails when neither end computes', async () => {
    const world = pair(() => false);
    world.delayed.isOne = true;
    let failure: unknown = null;
    world.alice.link().catch((error: unknown) => (failure = error));
    const pass = async (): Promise<unknown> => {
      await settle();
      world.clock.advance(LINKING_TIMEOUT_MS);
      await settle();
      return failure;
    };
    expect([await pass(), await pass()]).toEqual([null, null]);
    world.delayed.isOne = false;
    expect(await pass()).toBeInstanceOf(TimeoutError);
  });

  test('gives a link on demand more time, including its later attempts', async () => {
    const world = pair((attempt) => attempt === 3);
    const links = Promise.all([
      world.alice.link(true, ON_DEMAND_TIMEOUT_FACTOR),
      world.bob.link(false, ON_DEMAND_TIMEOUT_FACTOR),
    ]);
    await settle();
    for (let at = 0; at < 2 * LINKING_TIMEOUT_MS; at += 500) {
      world.clock.advance(500);
      await settle();
    }
    expect((await links).map(({ state }) => state)).toEqual(['open', 'open']);
  });

  test('closes its end of the link when it is closed, but keeps the connection', async () => {
    const world = pair(() => true);
    const [a, b] = await Promise.all([world.alice.link(), world.bob.link()]);
    world.alice.close();
    await settle();
    expect([a.state, b.state]).toEqual(['closed', 'open']);
  });

  test.each([
    [false, false, 0],
    [false, true, 1],
    [true, true, 0],
  ])(
    'with relayOnly %s in one generation and %s in the next, makes %i new connections',
    async (before, after, made) => {
      const first = pair(() => true, { relayOnly: before });
      const [older] = await Promise.all([first.alice.link(), first.bob.link()]);
      const second = pair(() => true, { relayOnly: after, generation: alice.generation + 1, pools: first.pools });
      await Promise.all([second.alice.link(), second.bob.link()]);
      expect(second.attempts.alice).toHaveLength(made);
      // The previous generation still trains over the connection that the next generation uses.
      expect(older.state).toBe(made === 0 ? 'open' : 'closed');
    },
  );
});

describe('GenerationLink between tabs of one browser', () => {
  test('links both ends by a message port if both request one with the same key', async () => {
    const world = pair(() => true, { broker: 'joins' });
    const [a, b] = await Promise.all([world.alice.link(), world.bob.link()]);
    expect(world.asked.map(({ initiator }) => initiator)).toEqual([true, false]);
    expect(world.asked[1]!.key).toBe(world.asked[0]!.key);
    expect(world.attempts).toEqual({ alice: [], bob: [] });
    expect([a.state, b.state]).toEqual(['open', 'open']);
  });

  test('connects over WebRTC if no message port opens within 3 s', async () => {
    const world = pair(() => true, { broker: 'does not answer' });
    const links = Promise.all([world.alice.link(), world.bob.link()]);
    await settle();
    expect(world.attempts.alice).toHaveLength(0);
    world.clock.advance(3_000);
    await settle();
    world.clock.advance(250);
    await links;
    expect(world.asked.map(({ aborted }) => aborted)).toEqual([true, true]);
    expect(world.attempts.bob.map(({ initiator }) => initiator)).toEqual([false]);
  });

  test('immediately connects over WebRTC if the browser cannot connect its tabs by ports', async () => {
    const world = pair(() => true, { broker: 'is missing' });
    const links = Promise.all([world.alice.link(), world.bob.link()]);
    await settle();
    world.clock.advance(250);
    await links;
    expect(world.attempts.alice).toHaveLength(1);
  });

  test('connects over WebRTC if only one end may use a message port', async () => {
    const world = pair(() => true);
    const links = Promise.all([world.alice.link(), world.bob.link(false)]);
    world.bob.signal(0, { type: 'port', key: '0'.repeat(32) });
    await links;
    expect(world.attempts.alice).toHaveLength(1);
  });
});
