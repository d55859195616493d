/**
 * Two ends of a link that can connect by WebRTC and through the server. The test decides when a
 * connection opens at each end.
 */
import { describe, expect, test } from 'vitest';
import {
  LINKING_TIMEOUT_MS,
  DIRECT_RETRY_DELAY_MS,
  DIRECT_HEAD_START_MS,
  SERVER_LINK_ATTEMPT_DELAY_MS,
  SERVER_LINK_ATTEMPT_DELAY_WITH_TURN_MS,
} from '../../../src/engine/membership/generationLink.ts';
import { createFrame, emptyFrameHeader, FrameKind, generationOfFrame } from '../../../src/protocol/frame.ts';
import type { Link } from '../../../src/transport/link.ts';
import {
  begin,
  GENERATION,
  linkThroughServer,
  MEMBERS,
  next,
  reaches,
  settle,
  TURN,
  turn,
  World,
  type Kind,
  type Name,
} from './linkWorld.ts';

describe('GenerationLink with a server', () => {
  test('begins an attempt through the server 3 s after the other end has answered', async () => {
    const world = await begin();
    await world.pass(SERVER_LINK_ATTEMPT_DELAY_MS - 1);
    const before = world.begun('server');
    await world.pass(1);
    expect([before, world.begun('server'), world.ends.direct.alice[0]!.isAborted]).toEqual([0, 1, false]);
    expect(world.ends.server.bob.map(({ initiator }) => initiator)).toEqual([false]);
  });

  test.each([
    ['without a TURN server', {}, SERVER_LINK_ATTEMPT_DELAY_MS],
    ['with a TURN server', { iceServers: [TURN] }, SERVER_LINK_ATTEMPT_DELAY_WITH_TURN_MS],
  ])('begins it 3 s later if an end computes or loads then, %s', async (_, options, ms) => {
    const world = await begin({ ...options, isDelayed: () => true });
    await world.pass(ms + SERVER_LINK_ATTEMPT_DELAY_MS - 1);
    const before = world.begun('server');
    await world.pass(1);
    expect([before, world.begun('server')]).toEqual([0, 1]);
  });

  test('makes no attempt through the server if the direct connection opens while it asks whether an end computes', async () => {
    const world: World = await begin({
      isDelayed: () => {
        for (const name of ['alice', 'bob'] as const) world.open('direct', name);
        return false;
      },
    });
    await world.pass(SERVER_LINK_ATTEMPT_DELAY_MS);
    await world.pass(SERVER_LINK_ATTEMPT_DELAY_MS);
    expect([world.begun('server'), world.links.alice.isServed]).toEqual([0, false]);
  });

  test('begins the attempt through the server only after a failed direct attempt if the other end does not answer', async () => {
    const signals = { arrive: false };
    const world = await begin({ signals });
    await world.pass(SERVER_LINK_ATTEMPT_DELAY_MS);
    const before = world.begun('server');
    await world.pass(3_000);
    expect([before, world.begun('server')]).toEqual([0, 1]);
  });

  test('begins the attempt through the server at once when WebRTC is blocked at the initiating end', async () => {
    const world = await begin({ blocked: 'alice' });
    expect(world.begun('server')).toBe(1);
    world.open('server', 'alice');
    world.open('server', 'bob');
    await world.linked;
    expect([world.links.alice.isServed, world.links.bob.isServed]).toEqual([true, true]);
  });

  test.each([
    ['a first direct attempt that does not end', 0, {}],
    ['a pair that has needed the server before', 1, { isServed: true }],
    ['a server that forwards all frames', 1, { hasWebRtc: false }],
  ])('in a fixed world, has begun it after 5 s for %s: %i', async (_, count, options) => {
    const world = await begin({ isFixed: true, ...options });
    await world.pass(5_000);
    expect(world.begun('server')).toBe(count);
  });

  test('begins the attempt through the server in a fixed world when its first direct attempt has failed', async () => {
    const world = await begin({ isFixed: true });
    world.fail('direct', 'alice', 'ICE failed.');
    await settle();
    expect(world.begun('server')).toBe(1);
  });

  test('waits 8 s with a TURN server in a fixed world, too', async () => {
    const world = await begin({ isFixed: true, iceServers: [TURN] });
    await world.pass(SERVER_LINK_ATTEMPT_DELAY_WITH_TURN_MS - 1);
    const before = world.begun('server');
    await world.pass(1);
    expect([before, world.begun('server')]).toEqual([0, 1]);
  });

  test.each([
    ['a TURN server', { iceServers: [TURN] }],
    ['relays only', { relayOnly: true }],
  ])('waits 8 s with %s, although the first direct attempt has failed', async (_, options) => {
    const world = await begin(options);
    await world.pass(SERVER_LINK_ATTEMPT_DELAY_WITH_TURN_MS - 1);
    const before = world.begun('server');
    await world.pass(1);
    expect([before, world.begun('server'), world.begun('direct')]).toEqual([0, 1, 2]);
  });

  test('begins the attempt through the server a second after the direct attempt if the pair has needed the server before', async () => {
    const world = new World({ isServed: true });
    for (const link of [world.links.alice, world.links.bob]) link.link().catch(() => {});
    await world.pass(DIRECT_HEAD_START_MS - 1);
    const before = [world.begun('direct'), world.begun('server')];
    await world.pass(1);
    expect([before, [world.begun('direct'), world.begun('server')]]).toEqual([
      [1, 0],
      [1, 1],
    ]);
  });

  test('makes no direct attempt if the server forwards all frames', async () => {
    const world = await begin({ hasWebRtc: false });
    expect([world.begun('direct'), world.begun('server')]).toEqual([0, 1]);
    world.open('server', 'alice');
    world.open('server', 'bob');
    const [a, b] = await world.linked;
    expect(await reaches(a, b)).toBe(true);
  });

  test.each([
    [true, 0],
    [false, 1],
  ])(
    'after a failed port, with WebRTC: %s, immediately begins %i attempts through the server',
    async (hasWebRtc, count) => {
      const world = await begin({ hasPorts: true, hasWebRtc });
      expect([world.ports, world.begun('server')]).toEqual([2, count]);
    },
  );

  test('makes no attempt through the server if the direct connection opens in time', async () => {
    const world = await begin();
    world.open('direct', 'alice');
    world.open('direct', 'bob');
    await world.linked;
    await world.pass(LINKING_TIMEOUT_MS);
    expect([world.begun('server'), world.links.alice.isServed, world.links.bob.isServed]).toEqual([0, false, false]);
  });

  test('cancels the attempt through the server when the direct connection opens first', async () => {
    const world = await begin({ isServed: true });
    world.open('direct', 'alice');
    await settle();
    expect(world.ends.server.alice.map(({ isAborted }) => isAborted)).toEqual([true]);
    world.open('server', 'bob');
    world.open('direct', 'bob');
    const [a, b] = await world.linked;
    expect([await reaches(a, b), world.links.bob.isServed, world.begun('server')]).toEqual([true, false, 1]);
  });

  test('tries the server again if the handshake over the chosen direct connection fails', async () => {
    const world = await begin({ isServed: true });
    world.open('direct', 'alice');
    // The direct connection never opens at the other end.
    await world.pass(6_000 - DIRECT_HEAD_START_MS);
    expect([world.begun('direct'), world.begun('server')]).toEqual([1, 2]);
    world.open('server', 'alice');
    world.open('server', 'bob');
    await world.linked;
    expect([world.links.alice.isServed, world.links.bob.isServed]).toEqual([true, true]);
  });

  test('uses a direct connection that has waited if the handshake through the server fails', async () => {
    const world = await begin({ isServed: true });
    world.open('server', 'alice');
    world.open('direct', 'bob');
    world.open('direct', 'alice');
    await settle();
    world.ends.server.bob[0]!.wire.close();
    const [a, b] = await world.linked;
    expect([await reaches(a, b), world.links.alice.isServed, world.links.bob.isServed]).toEqual([true, false, false]);
  });

  test('repeats a failed attempt through the server, and names both failures and the remedy', async () => {
    const world = await begin({ isServed: true });
    const failed = world.links.alice.link().catch((error: unknown) => String(error));
    world.fail('direct', 'alice', 'ICE failed.');
    world.fail('server', 'alice', 'The server has no capacity left.');
    await world.pass(250);
    expect([world.begun('direct'), world.begun('server')]).toEqual([2, 2]);
    await world.pass(LINKING_TIMEOUT_MS - DIRECT_HEAD_START_MS - 500);
    world.fail('server', 'alice', 'The server has no capacity left.');
    await world.pass(500);
    expect(await failed).toMatch(
      /within 14 s: No connection was opened within 6 s\. Through the server: The server has no capacity left\. If .*\(--turn\)\.$/,
    );
  });

  test('names no TURN server as a remedy if the server forwards all frames', async () => {
    const world = await begin({ hasWebRtc: false });
    world.fail('server', 'alice', 'The server cannot be reached.');
    const failed = world.linked.catch((error: unknown) => String(error));
    await world.pass(LINKING_TIMEOUT_MS);
    expect(await failed).toMatch(/14 s: Through the server: .* \(--server-links only\).* \/link .*\.$/);
    expect(await failed).not.toContain('TURN');
  });

  test('names links through the server as a remedy if the server forwards no frames', async () => {
    const world = await begin({ hasServer: false });
    world.fail('direct', 'alice', 'ICE failed.');
    const failed = world.linked.catch((error: unknown) => String(error));
    await world.pass(LINKING_TIMEOUT_MS);
    expect([await failed, world.begun('server')]).toEqual([
      expect.stringMatching(/--turn.* \(--server-links on\)\.$/),
      0,
    ]);
  });

  test.each(['alice', 'bob'] as const)(
    'uses the attempts of the lower member if both initiate, %s first',
    async (first) => {
      const world = new World({ isServed: true });
      const second = first === 'alice' ? 'bob' : 'alice';
      const linked = Promise.all([world.links[first].link(true), world.links[second].link(true)]);
      await world.pass(DIRECT_HEAD_START_MS);
      const roles = (['direct', 'server'] as const).map((kind) =>
        (['alice', 'bob'] as const).map((name) => world.ends[kind][name].at(-1)!.initiator),
      );
      expect(roles).toEqual([
        [true, false],
        [true, false],
      ]);
      for (const kind of ['server', 'direct'] as const)
        for (const name of ['alice', 'bob'] as const) world.open(kind, name);
      const [a, b] = await linked;
      expect(await reaches(a, b)).toBe(true);
    },
  );

  test('begins no link through the server if the first signal is an answer', async () => {
    const world = new World();
    world.links.alice.signal(0, { type: 'server', channel: '0'.repeat(32), key: null });
    world.links.bob.signal(1, { type: 'server', channel: '0'.repeat(32), key: null });
    await settle();
    expect(world.ends.server).toEqual({ alice: [], bob: [] });
  });
});

describe('A direct connection that opens after the link through the server', () => {
  test('is kept at both ends and used by the next generation, while the old link stays open', async () => {
    const world = await linkThroughServer();
    world.open('direct', 'alice');
    world.open('direct', 'bob');
    await settle();
    const { links, world: later } = await next(world);
    const [a, b] = links;
    expect([later.begun('direct'), later.begun('server')]).toEqual([0, 0]);
    expect([later.links.alice.isServed, later.links.bob.isServed]).toEqual([false, false]);
    expect([await reaches(a, b, GENERATION + 1), await reaches(...world.links2)]).toEqual([true, true]);
    world.pools.alice.retain(new Set([MEMBERS.bob]));
    await settle();
    expect([...world.links2, a, b].map(({ state }) => state)).toEqual(['closed', 'closed', 'open', 'open']);
  });

  test('is kept if it opens after the generation is over', async () => {
    const world = await linkThroughServer();
    for (const link of Object.values(world.links)) link.close();
    world.open('direct', 'bob');
    world.open('direct', 'alice');
    await settle();
    const { world: later } = await next(world);
    expect([later.begun('direct'), later.links.alice.isServed, later.links.bob.isServed]).toEqual([0, false, false]);
  });

  test('is closed if the connection through the server is closed', async () => {
    const world = await linkThroughServer();
    for (const link of Object.values(world.links)) link.close();
    world.pools.alice.retain(new Set());
    await settle();
    for (const name of ['alice', 'bob'] as const) world.open('direct', name);
    await settle();
    expect(world.ends.direct.alice.map(({ wire }) => wire.state)).toEqual(['closed']);
    expect([world.pools.alice.has(MEMBERS.bob), world.pools.bob.has(MEMBERS.alice)]).toEqual([false, false]);
  });

  test('is not kept after its own deadline, and no further attempt follows', async () => {
    const world = await linkThroughServer();
    await world.pass(6_000);
    await world.pass(LINKING_TIMEOUT_MS);
    expect(world.ends.direct.alice.map(({ isAborted }) => isAborted)).toEqual([true]);
  });

  test('is tried again by the next generation that uses the server, and kept', async () => {
    const first = await linkThroughServer();
    const { world } = await next(first);
    await world.pass(DIRECT_RETRY_DELAY_MS);
    world.open('direct', 'alice');
    world.open('direct', 'bob');
    await settle();
    const { world: later } = await next(world, GENERATION + 2);
    expect([world, later].map(({ links: { alice, bob } }) => [alice.isServed, bob.isServed])).toEqual([
      [true, true],
      [false, false],
    ]);
  });

  test('is not used before it is open at both ends', async () => {
    const world = await linkThroughServer();
    world.open('direct', 'alice');
    await settle();
    const { world: second } = await next(world);
    const isServed = [second.links.alice.isServed, second.links.bob.isServed];
    world.open('direct', 'bob');
    await settle();
    const { world: third } = await next(world, GENERATION + 2);
    expect([...isServed, third.links.alice.isServed, third.links.bob.isServed]).toEqual([true, true, false, false]);
  });

  test('is not used if only the other end has kept it', async () => {
    const world = await linkThroughServer({ slow: 'direct' });
    world.open('direct', 'alice');
    await settle();
    world.open('direct', 'bob');
    // Its greeting has not arrived at the other end.
    await turn();
    expect([world.pools.alice.keptFor(MEMBERS.bob), world.pools.bob.keptFor(MEMBERS.alice)]).toEqual([
      null,
      expect.objectContaining({ decides: false }),
    ]);
    const { links, world: second } = await next(world);
    expect([second.links.alice.isServed, await reaches(...links, GENERATION + 1)]).toEqual([true, true]);
    const { world: third } = await next(world, GENERATION + 2);
    expect([third.links.alice.isServed, third.links.bob.isServed]).toEqual([false, false]);
  });

  test('is given up, if dead, for the connection through the server', async () => {
    const world = await linkThroughServer();
    const lost: boolean[] = [];
    for (const name of ['bob', 'alice'] as const) world.open('direct', name);
    await settle();
    // Frames over the direct connection no longer arrive.
    for (const name of ['alice', 'bob'] as const) world.ends.direct[name][0]!.wire.send = () => Promise.resolve();
    const later = await begin({ pools: world.pools, generation: GENERATION + 1 });
    later.linked.then(
      () => lost.push(false),
      () => lost.push(true),
    );
    await later.pass(3_000);
    expect([lost, later.begun('direct'), later.begun('server')]).toEqual([[false], 0, 0]);
    expect([later.links.alice.isServed, later.links.bob.isServed]).toEqual([true, true]);
    expect(await reaches(...world.links2)).toBe(true);
  });
});

/**
 * Links the next generation, while each second a frame of the earlier one is sent. Frames of the
 * next one wait for `release`.
 */
async function train(world: World & { links2: [Link, Link] }) {
  let held: (() => void)[] | null = [];
  for (const name of ['alice', 'bob'] as const) {
    const { wire } = world.ends.server[name][0]!;
    const send = wire.send.bind(wire);
    wire.send = async (frame) => {
      if (held === null || generationOfFrame(frame) === GENERATION) return send(frame);
      held.push(() => void send(frame));
    };
  }
  const later = new World({ pools: world.pools, generation: GENERATION + 1, isServed: true });
  const linked = Promise.all([later.links.alice.link(), later.links.bob.link()]);
  linked.catch(() => {});
  const passSeconds = async (seconds: number): Promise<void> => {
    for (let rest = seconds; rest > 0; rest--) {
      await world.links2[0].send(createFrame(emptyFrameHeader(FrameKind.DATA, GENERATION), 8192));
      await later.pass(1_000);
    }
  };
  const release = (): void => {
    for (const send of held ?? []) send();
    held = null;
  };
  return { later, linked, passSeconds, release };
}

describe('A connection through the server on which the earlier generation trains', () => {
  test('carries the next generation even if the handshake waits for 11 s behind other frames', async () => {
    const world = await linkThroughServer();
    const { later, linked, passSeconds, release } = await train(world);
    await passSeconds(11);
    release();
    const [a, b] = await linked;
    expect([later.begun('direct'), later.begun('server'), await reaches(a, b, GENERATION + 1)]).toEqual([0, 0, true]);
    expect(world.links2.map(({ state }) => state)).toEqual(['open', 'open']);
  });

  test('is given up after 12 s', async () => {
    const { later, passSeconds } = await train(await linkThroughServer());
    await passSeconds(12);
    expect([later.begun('direct'), later.pools.alice.get(MEMBERS.bob)]).toEqual([1, null]);
  });

  test('is given up after 6 s if nothing moves', async () => {
    const { later } = await train(await linkThroughServer());
    await later.pass(6_000);
    expect(later.begun('direct')).toBe(1);
  });
});

/** All orders of some events. */
function ordersOf<T>(events: readonly T[]): T[][] {
  if (events.length === 0) return [[]];
  return events.flatMap((one) => ordersOf(events.filter((other) => other !== one)).map((rest) => [one, ...rest]));
}

/** What happens between two events. */
const PAUSES: Record<string, () => Promise<void>> = {
  nothing: async () => {},
  microtasks: async () => {
    for (let rest = 3; rest > 0; rest--) await Promise.resolve();
  },
  turn,
  everything: () => settle(),
};

/** A sequence of four events, with a pause before each event from number `from` on. */
function sequences<T>(events: readonly T[]): { order: T[]; pause: string; from: number }[] {
  return ordersOf(events).flatMap((order) =>
    Object.keys(PAUSES).flatMap((pause) => [1, 2, 3].map((from) => ({ order, pause, from }))),
  );
}

async function happen<T>({ order, pause, from }: ReturnType<typeof sequences<T>>[number], handle: (event: T) => void) {
  for (const [position, event] of order.entries()) {
    if (position >= from) await PAUSES[pause]!();
    handle(event);
  }
  await settle(14);
}

/** Tells what is wrong with two links, which should use the same connection. */
async function faultOf(linked: Promise<[Link, Link]>, world: World, generation = GENERATION): Promise<string | null> {
  linked.catch(() => {});
  const links = await Promise.race([linked, turn().then(() => null)]);
  if (links === null) return 'not linked';
  const [a, b] = links;
  if (!(await reaches(a, b, generation)) || !(await reaches(b, a, generation))) return 'different connections';
  return world.links.alice.isServed === world.links.bob.isServed ? null : 'different reports';
}

/** Begins to link the two ends, directly and through the server. */
async function linkFrom(
  initiator: Name,
  slow: Kind | undefined,
): Promise<{ world: World; linked: Promise<[Link, Link]> }> {
  const world = new World({ isServed: true, ...(slow && { slow }) });
  const { alice, bob } = world.links;
  const linked = Promise.all([alice.link(initiator === 'alice'), bob.link(initiator === 'bob')]);
  await settle(2);
  world.clock.advance(DIRECT_HEAD_START_MS);
  await settle(2);
  return { world, linked };
}

describe('Both ends of a link', () => {
  const ROLES = (['alice', 'bob'] as const).flatMap((initiator) =>
    ([undefined, 'direct', 'server'] as const).map((slow) => ({ initiator, slow })),
  );
  const EVENTS = (['direct', 'server'] as const).flatMap((kind) =>
    (['alice', 'bob'] as const).map((name) => ({ kind, name })),
  );

  test.each(ROLES)(
    'use the same connection in any order of events, also in the next generation ($initiator initiates, slow frames: $slow)',
    async ({ initiator, slow }) => {
      const faults: string[] = [];
      const used = new Set<boolean>();
      for (const sequence of sequences(EVENTS)) {
        const { world, linked } = await linkFrom(initiator, slow);
        await happen(sequence, ({ kind, name }) => world.open(kind, name));
        const isServed = world.links.alice.isServed;
        used.add(isServed);
        const kept = [world.pools.alice.keptFor(MEMBERS.bob), world.pools.bob.keptFor(MEMBERS.alice)];
        const later = await begin({ pools: world.pools, generation: GENERATION + 1 });
        const found = [
          await faultOf(linked, world),
          kept.every((one) => (one !== null) === isServed) ? null : 'not kept',
          await faultOf(later.linked, later, GENERATION + 1),
          later.links.alice.isServed ? 'the next generation is served' : null,
        ].filter((fault) => fault !== null);
        if (found.length > 0) faults.push(`${JSON.stringify(sequence)}: ${found.join(', ')}`);
      }
      expect(faults).toEqual([]);
      expect(used.size).toBe(2);
    },
  );

  test.each(ROLES)(
    'use the same connection in the next generation, whenever it begins ($initiator initiates, slow frames: $slow)',
    async ({ initiator, slow }) => {
      const faults: string[] = [];
      const used = new Set<boolean>();
      const events = (['open', 'next'] as const).flatMap((what) =>
        (['alice', 'bob'] as const).map((name) => ({ what, name })),
      );
      for (const sequence of sequences(events)) {
        const { world, linked } = await linkFrom(initiator, slow);
        for (const name of ['alice', 'bob'] as const) world.open('server', name);
        await settle(14);
        const later = new World({ pools: world.pools, generation: GENERATION + 1 });
        const nextLinks: Partial<Record<Name, Promise<Link>>> = {};
        await happen(sequence, ({ what, name }) => {
          if (what === 'open') world.open('direct', name);
          else nextLinks[name] = later.links[name].link();
        });
        const nextLinked = Promise.all([nextLinks.alice!, nextLinks.bob!]);
        const found = [
          await faultOf(nextLinked, later, GENERATION + 1),
          await faultOf(linked, world),
          later.begun('direct') + later.begun('server') > 0 ? 'a new attempt' : null,
        ].filter((fault) => fault !== null);
        used.add(later.links.alice.isServed);
        if (found.length > 0) faults.push(`${JSON.stringify(sequence)}: ${found.join(', ')}`);
      }
      expect(faults).toEqual([]);
      expect(used.size).toBe(2);
    },
  );
});
