/**
 * Tests of flood messages. They reach all ranks, and forged or excessive messages do limited harm.
 */
import { describe, expect, test } from 'vitest';
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { emptyFrameHeader, encodeJsonFrame, FrameKind } from '../../src/protocol/frame.ts';
import { createMeshes, type TestWorld } from '../../src/testing/index.ts';
import type { Link } from '../../src/transport/link.ts';
import { createMemoryLinkPair } from '../../src/transport/memoryLink.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { PeerGoneError, ProtocolError } from '../../src/util/errors.ts';
import { seededPermutation } from '../../src/util/rng.ts';

/** Resolves when frames over memory links have arrived and are forwarded. */
const arrivals = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

/** Deadline of waits that should end at once. */
const TIMEOUT_MS = 2000;

interface Forged {
  origin: number;
  id: number;
  group?: number;
  body: unknown;
}

/** Sends a flood message unchanged over one rank's link to another. */
async function inject(
  { links }: TestWorld,
  from: number,
  to: number,
  { group = 0, ...message }: Forged,
): Promise<void> {
  await links[from]!.get(to)!.send(encodeJsonFrame(emptyFrameHeader(FrameKind.FLOOD, 1), { group, ...message }));
}

function groupsOf({ meshes }: TestWorld): ProcessGroup[] {
  return meshes.map((mesh) => new ProcessGroup(mesh));
}

function newGroup(worlds: readonly ProcessGroup[], ranks: readonly number[]): Promise<ProcessGroup[]> {
  return Promise.all(worlds.map((world) => world.newGroup(ranks)));
}

/** Holds frames from one rank to another back until `release` is called. */
function stall({ links }: TestWorld, from: number, to: number) {
  const link = links[from]!.get(to)!;
  const held: ArrayBuffer[] = [];
  const released = createDeferred();
  link.send = (frame) => {
    held.push(frame);
    return released.promise;
  };
  return { release: released.resolve, bytes: () => held.reduce((sum, { byteLength }) => sum + byteLength, 0) };
}

/** Opens a link between two ranks of a world. */
function join({ meshes, links }: TestWorld, a: number, b: number): void {
  if (links[a]!.has(b)) return;
  const [mine, theirs] = createMemoryLinkPair();
  (links[a] as Map<number, Link>).set(b, mine);
  (links[b] as Map<number, Link>).set(a, theirs);
  meshes[a]!.accept(b, mine);
  meshes[b]!.accept(a, theirs);
}

/** Creates a world of `n` ranks in which all links are open. */
function fullWorld(n: number): TestWorld {
  const world = createMeshes(n);
  for (let a = 0; a < n; a++) for (let b = 0; b < a; b++) join(world, a, b);
  return world;
}

/** Holds all frames of a rank back. */
function freeze(world: TestWorld, rank: number): void {
  for (const peer of world.links[rank]!.keys()) stall(world, rank, peer);
}

const ABORT = { type: 'abort', name: 'TimeoutError', message: 'over' };

/** Returns a message of 10 kB that has no effect. */
const report = (id: number): Forged => ({
  origin: 0,
  id,
  body: { type: 'report', seq: 1000, report: { call: 'x'.repeat(10_000), state: null, last: null, idleMs: 0 } },
});

describe('flood messages', () => {
  test('are also forwarded by ranks that have left their process groups', async () => {
    const world = createMeshes(4);
    const worlds = groupsOf(world);
    const groups = await newGroup(worlds, [0, 2]);
    for (const rank of [1, 3]) {
      groups[rank]!.destroy();
      worlds[rank]!.destroy();
    }
    await Promise.all([0, 2].map((rank) => groups[rank]!.monitoredBarrier({ timeoutMs: TIMEOUT_MS })));
    expect([0, 2].map((rank) => groups[rank]!.failure)).toEqual([null, null]);
    world.close();
  });

  test.each([3, 4, 5])(
    'reach a neighbour of the sender over other ranks if the link between the two is silent, with %i ranks',
    async (n) => {
      const world = createMeshes(n);
      const worlds = groupsOf(world);
      stall(world, 0, 1);
      worlds[0]!.abort(new Error('over'));
      for (let hop = 0; hop < n; hop++) await arrivals();
      expect(worlds.map(({ failure }) => failure !== null)).toEqual(worlds.map(() => true));
      world.close();
    },
  );

  test('cross only a few links if all links are open: each rank forwards over at most two links per power of two', async () => {
    const world = fullWorld(64);
    groupsOf(world);
    const sent = () => world.links.flatMap((own) => [...own.values()].map(({ counters }) => counters.framesSent));
    const total = () => sent().reduce((sum, frames) => sum + frames, 0);
    const before = total();
    world.meshes[0]!.flood(0, { type: 'passed', barrier: 1000 });
    for (let hop = 0; hop < 64; hop++) await arrivals();
    // Rank 0 sends to all. At a distance of 32, both sides are the same link.
    expect(total() - before).toBeLessThanOrEqual(63 + 63 * 11);
    expect(total() - before).toBeGreaterThan(63 * 9);
    world.close();
  });

  test.each([1, 2, 3, 4])(
    "reach all ranks of a large world even if a third of the ranks and most of the sender's links are silent: %i",
    async (seed) => {
      const world = fullWorld(32);
      const worlds = groupsOf(world);
      for (const rank of seededPermutation(31, seed).slice(0, 10)) freeze(world, rank + 1);
      for (const peer of world.links[0]!.keys()) if (peer % 8 !== 3) stall(world, 0, peer);
      worlds[0]!.abort(new Error('over'));
      for (let hop = 0; hop < 32; hop++) await arrivals();
      expect(worlds.map(({ failure }) => failure !== null)).toEqual(worlds.map(() => true));
      world.close();
    },
  );

  test('use any other open link if the ring neighbours between two ranks are frozen', async () => {
    const world = createMeshes(6);
    const worlds = groupsOf(world);
    join(world, 0, 3);
    for (const rank of [1, 5]) freeze(world, rank);
    worlds[2]!.abort(new Error('over'));
    for (let hop = 0; hop < 6; hop++) await arrivals();
    expect(worlds[0]!.failure?.message).toBe('over');
    world.close();
  });

  test('can abort a group; the error names the rank that sent the message, even if the message contains another rank', async () => {
    const world = createMeshes(3);
    const worlds = groupsOf(world);
    await inject(world, 2, 0, { origin: 2, id: 1, body: { ...ABORT, name: 'PeerGoneError', rank: 0, missing: [1] } });
    await arrivals();
    expect((worlds[0]!.failure as PeerGoneError).context).toMatchObject({ rank: 2, missing: [1] });
    world.close();
  });

  test('are no longer forwarded after the end of the generation, and the links then have no handlers', async () => {
    const world = createMeshes(4);
    const worlds = groupsOf(world);
    for (const rank of [1, 3]) world.meshes[rank]!.end(new PeerGoneError('the room closed'));
    for (const { onframe, onclose } of world.links[1]!.values()) expect([onframe, onclose]).toEqual([null, null]);
    worlds[0]!.abort(new Error('over'));
    await arrivals();
    expect(worlds[2]!.failure).toBeNull();
    world.close();
  });

  test('are forwarded in at most n - 1 hops', async () => {
    const world = createMeshes(4);
    groupsOf(world);
    const sent = (): number => world.links[1]!.get(2)!.counters.framesSent;
    for (const [step, frames] of [
      [1, 1],
      [2, 0],
    ] as const) {
      const before = sent();
      const header = { ...emptyFrameHeader(FrameKind.FLOOD, 1), step };
      const body = { type: 'passed', barrier: 0 };
      await world.links[0]!.get(1)!.send(encodeJsonFrame(header, { origin: 0, id: step, group: 0, body }));
      await arrivals();
      expect(sent() - before).toBe(frames);
    }
    world.close();
  });
});

describe('a hostile rank', () => {
  test('cannot send messages in the name of a ring neighbour of the receiver', async () => {
    const world = createMeshes(3);
    const pairs = await newGroup(groupsOf(world), [0, 1]);
    await inject(world, 2, 0, { origin: 1, id: 12_345, group: 1, body: ABORT });
    await arrivals();
    expect(pairs.map(({ failure }) => failure)).toEqual([null, null, null]);
    world.close();
  });

  test("can send messages in the name of a ring neighbour of the receiver if this neighbour's link is closed", async () => {
    const world = createMeshes(4);
    const worlds = groupsOf(world);
    const groups = await newGroup(worlds, [0, 2]);
    world.links[0]!.get(1)!.close();
    await arrivals();
    await inject(world, 3, 2, { origin: 0, id: 12_345, group: 1, body: ABORT });
    await arrivals();
    expect(groups[2]!.failure?.message).toBe('over');
    world.close();
  });

  test('cannot send to a group without being a member, and no rank forwards such messages', async () => {
    const world = createMeshes(4);
    const pairs = await newGroup(groupsOf(world), [0, 1]);
    const sent = (): number => world.links[1]!.get(2)!.counters.framesSent;
    const before = sent();
    await inject(world, 0, 1, { origin: 3, id: 1, group: 1, body: ABORT });
    await inject(world, 0, 1, { origin: 0, id: 2, group: 99, body: ABORT });
    await inject(world, 0, 1, { origin: 4, id: 3, body: ABORT });
    await arrivals();
    expect(pairs[1]!.failure).toBeNull();
    expect(sent()).toBe(before);
    world.close();
  });

  test('cannot block messages of another rank by using their ids first', async () => {
    const world = createMeshes(5);
    const groups = groupsOf(world);
    for (let id = 0; id < 100; id++) {
      await inject(world, 2, 3, { origin: 0, id, body: { type: 'passed', barrier: 1000 } });
    }
    await Promise.all(groups.map((group) => group.monitoredBarrier({ timeoutMs: TIMEOUT_MS })));
    expect(groups.map(({ failure }) => failure)).toEqual(groups.map(() => null));
    world.close();
  });

  test('cannot fill the memory of a rank that forwards its messages over a slow link', async () => {
    const world = createMeshes(3);
    const groups = groupsOf(world);
    const slow = stall(world, 1, 2);
    for (let id = 0; id < 100; id++) await inject(world, 0, 1, report(id));
    await arrivals();
    const held = slow.bytes();
    expect(held).toBeGreaterThan(200 * 1024);
    expect(held).toBeLessThanOrEqual(256 * 1024);
    // Messages of other ranks do not wait behind these messages. Later messages do not wait either,
    // once the link has sent all.
    groups[1]!.abort(new Error('over'));
    const withAbort = slow.bytes();
    expect(withAbort).toBeGreaterThan(held);
    slow.release();
    await arrivals();
    await inject(world, 0, 1, report(100));
    await arrivals();
    expect(slow.bytes()).toBeGreaterThan(withAbort + 10_000);
    world.close();
  });

  test('is blamed for unreadable messages, but a rank that only forwards them is not blamed', async () => {
    const world = createMeshes(4);
    const worlds = groupsOf(world);
    const groups = await newGroup(worlds, [0, 2]);
    // Rank 1 is not a member, so it cannot check the message.
    await inject(world, 2, 1, { origin: 2, id: 1, group: 1, body: 'not a message' });
    await arrivals();
    expect([worlds[0]!.failure, groups[0]!.failure]).toEqual([null, null]);
    await inject(world, 2, 1, { origin: 2, id: 2, body: { type: 'arrived', barrier: 0.5 } });
    await arrivals();
    expect(worlds[1]!.failure).toBeInstanceOf(ProtocolError);
    expect(worlds[1]!.failure!.message).toMatch(/^Rank 2 sent a frame that cannot be read/);
    world.close();
  });
});
