/** Tests of the creation and end of process groups. */
import { afterEach, describe, expect, test, vi } from 'vitest';
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { ReduceOp } from '../../src/protocol/frame.ts';
import { createMeshes, runWorld } from '../../src/testing/index.ts';
import { MismatchError, PeerGoneError, TimeoutError, UsageError } from '../../src/util/errors.ts';
import { errorOf } from '../errorOf.ts';
import { pause, watchGroups } from './faultyRanks.ts';

afterEach(() => vi.restoreAllMocks());

describe('process groups', () => {
  test("resolve a receive from any rank with the sender's global rank, even in a subgroup", async () => {
    const senders = await runWorld(4, async (world) => {
      const group = await world.newGroup([2, 3]);
      if (world.rank === 3) await group.send(Float32Array.of(7), 2);
      return world.rank === 2 ? group.recv(new Float32Array(1)) : null;
    });
    expect(senders[2]).toBe(3);
  });

  test('fail with the given reason when their generation ends, and so do their subgroups', async () => {
    const { meshes } = createMeshes(2);
    const worlds = meshes.map((mesh) => new ProcessGroup(mesh));
    const pairs = await Promise.all(worlds.map((world) => world.newGroup([1, 0])));
    const work = pairs[0]!.barrier();
    meshes[0]!.end(new PeerGoneError('the room closed'));
    expect((await errorOf(work)).message).toBe('the room closed');
    expect((await errorOf(worlds[0]!.barrier())).message).toBe('the room closed');
    expect(worlds[1]!.failure).toBeNull();
  });

  test('are no longer registered after their creation has failed', async () => {
    const { meshes } = createMeshes(2);
    const worlds = meshes.map((mesh) => new ProcessGroup(mesh));
    const registered = meshes.map(watchGroups);
    const errors = await Promise.all(
      worlds.map((world) => errorOf(world.newGroup(world.rank === 0 ? [0, 1] : [1, 0]))),
    );
    for (const error of errors) expect(error).toBeInstanceOf(MismatchError);
    expect(registered).toEqual([new Set(), new Set()]);
  });

  test('are all unregistered if newSubgroups cannot create one of them', async () => {
    const { meshes } = createMeshes(2);
    const [world, other] = meshes.map((mesh) => new ProcessGroup(mesh));
    const registered = watchGroups(meshes[0]!);
    const subgroups = world!.newSubgroups(1);
    await other!.newGroup([0]);
    await pause(0);
    expect(registered.size).toBe(1);
    other!.abort(new Error('over'));
    expect((await errorOf(subgroups)).message).toBe('over');
    expect(registered.size).toBe(0);
  });

  test('cannot be created from a destroyed group, and the failed call leaves the handlers of links unchanged', async () => {
    const { meshes, links } = createMeshes(2);
    const world = new ProcessGroup(meshes[0]!);
    world.destroy();
    const link = links[0]!.get(1)!;
    const [onframe, onclose] = [vi.fn(), vi.fn()];
    Object.assign(link, { onframe, onclose });
    expect((await errorOf(world.newGroup([0, 1]))).message).toMatch(/Rank 0 has left this process group/);
    expect([link.onframe, link.onclose]).toEqual([onframe, onclose]);
  });

  test('name global ranks in errors, even in a world with reversed ranks', async () => {
    const { meshes } = createMeshes(2);
    const order = [1, 0];
    const worlds = meshes.map((mesh) => new ProcessGroup(mesh, {}, order));
    const errors = await Promise.all(worlds.map((world, rank) => errorOf(world.newGroup([rank]))));
    expect(errors.map(({ message }) => message)).toEqual([
      'newGroup was called with different ranks on rank 1 and on rank 0. Rank 0 passed 0. Pass the same ranks on every rank.',
      'newGroup was called with different ranks on rank 1 and on rank 0. Rank 1 passed 1. Pass the same ranks on every rank.',
    ]);
    expect(errors.map(({ context }) => context.rank)).toEqual([0, 1]);
  });

  test('cannot be created if all group numbers are in use, and existing groups continue', async () => {
    const { meshes } = createMeshes(2);
    const worlds = meshes.map((mesh) => new ProcessGroup(mesh));
    const listener = {
      onframe: vi.fn(),
      onmessage: vi.fn(),
      onlost: vi.fn(),
      onbroken: vi.fn(),
      onend: vi.fn(),
    };
    for (const mesh of meshes) for (let i = 1; i < 65_535; i++) mesh.unregister(mesh.register(listener, []));
    const last = await Promise.all(worlds.map((world) => world.newGroup([0, 1])));
    const errors = await Promise.all(worlds.map((world) => errorOf(world.newGroup([0, 1]))));
    for (const error of errors) {
      expect(error).toBeInstanceOf(UsageError);
      expect(error.message).toMatch(/65536 process groups/);
    }
    await Promise.all([...last, ...worlds].map((group) => group.barrier()));
  });

  test('do not change if the caller changes the array of ranks afterwards', async () => {
    const { meshes } = createMeshes(4);
    const worlds = meshes.map((mesh) => new ProcessGroup(mesh));
    const made = await Promise.all(
      worlds.map(async (world) => {
        const members = [0, 1];
        const one = world.newGroup(members);
        members.splice(0, 2, 2, 3);
        const two = world.newGroup(members);
        members.length = 0;
        return Promise.all([one, two]);
      }),
    );
    const mine = made.map(([one, two], rank) => (rank < 2 ? one : two));
    expect(mine.map(({ ranks }) => ranks)).toEqual([
      [0, 1],
      [0, 1],
      [2, 3],
      [2, 3],
    ]);
    const sums = await Promise.all(mine.map((group) => group.allReduce(Float32Array.of(group.ranks[group.rank]!))));
    expect(sums.map(([sum]) => sum)).toEqual([1, 1, 5, 5]);
    expect(() => (mine[0]!.ranks as number[]).reverse()).toThrow(TypeError);
  });

  test('fail on every rank if one rank passes a different reduce op', async () => {
    const errors = await runWorld(3, (group) =>
      errorOf(group.allReduce(Int32Array.of(1), { op: group.rank === 1 ? ReduceOp.BOR : ReduceOp.SUM })),
    );
    for (const error of errors) {
      expect(error).toBeInstanceOf(MismatchError);
      expect(error.message).toMatch(
        /Ranks 0 and 2 called allReduce\(1 int32, SUM\)\. Rank 1 called allReduce\(1 int32, BOR\)/,
      );
    }
    // A rejected call uses no sequence number, so later calls have the right numbers.
    await runWorld(2, async (group) => {
      if (group.rank === 0)
        expect(() => group.allReduce(Float32Array.of(1), { op: ReduceOp.BAND })).toThrow(/an integer dtype/);
      if (group.rank === 1)
        expect(() => group.allReduce(Float32Array.of(1), { op: ReduceOp.NONE })).toThrow(/Unknown reduce op/);
      await group.barrier();
    });
    expect(errors[0]).not.toBeInstanceOf(TimeoutError);
  });
});
