/** A direct connection over which nothing arrives any more, while the server can be reached. */
import { describe, expect, test } from 'vitest';
import { DIRECT_HEAD_START_MS, LINKING_TIMEOUT_MS } from '../../../src/engine/membership/generationLink.ts';
import type { Link } from '../../../src/transport/link.ts';
import { begin, GENERATION, MEMBERS, reaches, settle, World, type Name } from './linkWorld.ts';

const NAMES = ['alice', 'bob'] as const;

type LinkedWorld = World & { links2: [Link, Link] };

/** Links the two ends directly. */
async function linkDirectly(options: ConstructorParameters<typeof World>[0] = {}): Promise<LinkedWorld> {
  const world = await begin(options);
  for (const name of NAMES) world.open('direct', name);
  return Object.assign(world, { links2: await world.linked });
}

/** Cuts the direct connection. The ends in `noticed` report it. */
async function cut(world: World, noticed: readonly Name[] = NAMES): Promise<void> {
  world.cut();
  for (const name of noticed) world.stall(name);
  await settle();
}

async function openServer(world: World): Promise<void> {
  for (const name of NAMES) world.open('server', name);
  await settle();
}

/** Links the two in the next generation, over connections that are open. */
async function next(world: World): Promise<{ links: [Link, Link]; begun: number }> {
  const later = await begin({ pools: world.pools, generation: GENERATION + 1 });
  const links = await later.linked;
  return { links, begun: later.begun('direct') + later.begun('server') };
}

describe('A direct connection that has stalled', () => {
  const WHY = [expect.stringMatching(/^Rank \d can be reached through the server only/)];

  test.each([
    ['both ends', NAMES],
    ['the end with the lower id', ['alice']],
  ] as const)(
    'is replaced when both ends have greeted over the server, and lost then (noticed by %s)',
    async (_, noticed) => {
      const world = await linkDirectly();
      await cut(world, noticed);
      const before = [world.begun('server'), [...world.lost.alice], world.links2[0].state];
      await openServer(world);
      expect(before).toEqual([1, [], 'open']);
      expect(world.lost).toEqual({ alice: WHY, bob: WHY });
      expect(world.links2.map(({ state }) => state)).toEqual(['closed', 'closed']);
      const { links, begun } = await next(world);
      expect([begun, await reaches(...links, GENERATION + 1)]).toEqual([0, true]);
    },
  );

  test('is replaced even if an earlier generation opened it or the other end initiated it', async () => {
    const first = await linkDirectly();
    const later = Object.assign(new World({ pools: first.pools, generation: GENERATION + 1 }), first.ends);
    await Promise.all([later.links.alice.link(), later.links.bob.link()]);
    first.cut();
    first.stall('alice');
    await settle();
    await openServer(later);
    const other = new World();
    const linked = Promise.all([other.links.bob.link(true), other.links.alice.link(false)]);
    await settle();
    for (const name of NAMES) other.open('direct', name);
    await linked;
    await cut(other);
    await openServer(other);
    expect([first.lost, other.lost]).toEqual([
      { alice: WHY, bob: WHY },
      { alice: WHY, bob: WHY },
    ]);
  });

  test('is replaced only on the initiative of the member with the lower id', async () => {
    const world = await linkDirectly();
    await cut(world, ['bob']);
    expect(world.begun('server')).toBe(0);
  });

  test.each([
    ['before the server link is open', async () => {}],
    ['when only the lower end has opened it', async (world: World) => world.open('server', 'alice')],
    ['when only the other end has opened it', async (world: World) => world.open('server', 'bob')],
  ])('stays if it works again %s', async (_, happen) => {
    const world = await linkDirectly();
    for (const name of NAMES) world.stall(name);
    await settle();
    await happen(world);
    await settle();
    for (const name of NAMES) world.stall(name, false);
    await openServer(world);
    await world.pass(LINKING_TIMEOUT_MS);
    expect([world.lost, world.begun('server')]).toEqual([{ alice: [], bob: [] }, 1]);
    expect(await reaches(...world.links2)).toBe(true);
    // A later stall begins again.
    await cut(world);
    await openServer(world);
    expect([world.begun('server'), world.lost.alice]).toEqual([2, WHY]);
  });

  test('stays while the other end computes without answering, however long this takes', async () => {
    const world = await linkDirectly();
    world.links.bob.signal = () => {};
    world.stall('alice');
    await world.pass(12_000);
    world.stall('alice', false);
    await world.pass(LINKING_TIMEOUT_MS);
    expect([world.lost.alice, await reaches(...world.links2)]).toEqual([[], true]);
  });

  test.each([
    ['the server forwards nothing', { hasServer: false }],
    ['the run would end with it', { isFixed: true }],
  ])('stays if %s', async (_, options) => {
    const world = await linkDirectly(options);
    for (const name of NAMES) world.stall(name);
    await settle();
    expect([world.begun('server'), world.links2[0].state]).toEqual([0, 'open']);
  });

  test('is not replaced after it has closed or the generation is over', async () => {
    const world = await linkDirectly();
    await cut(world);
    world.fail('server', 'alice', 'The server is busy.');
    world.pools.alice.drop(MEMBERS.bob);
    await world.pass(LINKING_TIMEOUT_MS);
    const other = await linkDirectly();
    await cut(other);
    for (const name of NAMES) other.links[name].close();
    await openServer(other);
    await other.pass(LINKING_TIMEOUT_MS);
    expect([world.begun('server'), other.begun('server'), other.lost]).toEqual([1, 1, { alice: [], bob: [] }]);
  });

  test('tries the server again if the first attempt fails', async () => {
    const world = await linkDirectly();
    await cut(world);
    world.fail('server', 'alice', 'The server is busy.');
    await world.pass(250);
    await openServer(world);
    expect([world.begun('server'), world.lost]).toEqual([2, { alice: WHY, bob: WHY }]);
  });

  test('is not used by the next generation, which tries the server a second later', async () => {
    const world = await linkDirectly();
    await cut(world, ['alice']);
    for (const name of NAMES) world.links[name].close();
    const later = await begin({ pools: world.pools, generation: GENERATION + 1 });
    await later.pass(DIRECT_HEAD_START_MS);
    await openServer(later);
    const links = await later.linked;
    expect([later.begun('direct'), later.begun('server'), await reaches(...links, GENERATION + 1)]).toEqual([
      1,
      1,
      true,
    ]);
  });
});
