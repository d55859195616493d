/** Ranks that are late, frozen, hostile or gone, and what the others make of it. */
import { afterEach, describe, expect, test, vi } from 'vitest';
import { Mesh } from '../../src/collectives/mesh.ts';
import type { ProcessGroupOptions } from '../../src/collectives/options.ts';
import { DEFAULT_OP_TIMEOUT_MS, ProcessGroup } from '../../src/collectives/processGroup.ts';
import {
  Algorithm,
  createFrame,
  DtypeCode,
  emptyHeader,
  encodeJsonFrame,
  FrameKind,
  OpCode,
  readHeader,
  ReduceOp,
  type FrameHeader,
} from '../../src/protocol/frame.ts';
import { createMeshes, runWorld } from '../../src/testing/index.ts';
import type { Link } from '../../src/transport/link.ts';
import { createMemoryLinkPair } from '../../src/transport/memoryLink.ts';
import { deferred } from '../../src/util/deferred.ts';
import {
  MismatchError,
  PeerGoneError,
  ProtocolError,
  TimeoutError,
  UsageError,
  type PeergradError,
} from '../../src/util/errors.ts';
import { ManualClock } from '../manualClock.ts';

async function errorOf(promise: PromiseLike<unknown>): Promise<PeergradError> {
  try {
    await promise;
  } catch (error) {
    return error as PeergradError;
  }
  throw new Error('expected a rejection');
}

afterEach(() => vi.restoreAllMocks());

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Rank 0 of two, and the end of its link that the test holds. */
function hostage(options: ProcessGroupOptions = {}) {
  const [mine, theirs] = createMemoryLinkPair();
  const group = new ProcessGroup(
    new Mesh({ rank: 0, worldSize: 2, generation: 1, links: new Map([[1, mine]]) }),
    options,
  );
  return { group, theirs };
}

/** Two ranks without time, so that nothing ends by its deadline. */
function timelessPair(): [ProcessGroup, ProcessGroup] {
  const clock = new ManualClock();
  const [one, other] = createMeshes(2).meshes.map((mesh) => new ProcessGroup(mesh, { clock }));
  return [one!, other!];
}

function loseAllButNews(link: Link): void {
  const send = link.send.bind(link);
  vi.spyOn(link, 'send').mockImplementation((frame) =>
    readHeader(frame).kind === FrameKind.FLOOD ? send(frame) : Promise.resolve(),
  );
}

/** What happens to a tensor that its owner hands to a worker too early. */
function giveAway(tensor: Float32Array): void {
  structuredClone(tensor, { transfer: [tensor.buffer] });
}

/** Numbers of the groups that are made from now on and have not ended on this rank. */
function watchGroups(mesh: Mesh): Set<number> {
  const groups = new Set<number>();
  const register = mesh.register.bind(mesh);
  vi.spyOn(mesh, 'register').mockImplementation((...args) => {
    const group = register(...args);
    groups.add(group);
    return group;
  });
  const unregister = mesh.unregister.bind(mesh);
  vi.spyOn(mesh, 'unregister').mockImplementation((group) => {
    groups.delete(group);
    unregister(group);
  });
  return groups;
}

/** Sends so many bytes ahead, to each of these groups. */
async function park(
  link: Link,
  groups: readonly number[],
  bytes: number,
  of: Partial<FrameHeader> = { op: OpCode.ALL_REDUCE, algorithm: Algorithm.RING },
): Promise<void> {
  const header = { ...emptyHeader(FrameKind.DATA, 1), ...of, dtype: DtypeCode.FLOAT32, count: 15_000 };
  for (const group of groups) {
    for (let seq = 100; seq < 100 + bytes / 60_000; seq++) {
      await link.send(createFrame({ ...header, group, seq }, 60_000));
    }
  }
}

describe('late ranks', () => {
  test('an object collective does not wait behind ops that other ranks issue only after it', async () => {
    const sums = await runWorld(
      2,
      async (group) => {
        const objects = group.allGatherObject(group.rank);
        if (group.rank === 1) await objects;
        const works = Array.from({ length: 100 }, (_, i) => group.allReduce(Float32Array.of(i)));
        for (const work of works) await work;
        return (await objects).length;
      },
      { timeoutMs: 2000 },
    );
    expect(sums).toEqual([2, 2]);
  });

  test('an op that ends while ranks are asked about it has not failed', async () => {
    await runWorld(3, async (group) => {
      if (group.rank === 2) {
        // The others' deadline passes, and this rank comes before they have given up.
        await pause(45);
        await Promise.allSettled([group.allReduce(Float32Array.of(1))]);
        return;
      }
      const work = group.allReduce(Float32Array.of(1), { timeoutMs: 40 });
      const outcome = await work.then(
        () => 'done',
        () => 'failed',
      );
      // Either way ranks agree with their group.
      expect(group.failure === null).toBe(outcome === 'done');
    });
  });

  test('an op that nobody answers ends, also where its deadline passes while another is inquired about', async () => {
    const clock = new ManualClock();
    const { group, theirs } = hostage({ clock, timeoutMs: 200 });
    const late = group.broadcast(new Float32Array(1), 1);
    const lost = group.broadcast(new Float32Array(1), 1);
    clock.advance(200);
    // Rank 1 comes to the first one during the inquiry.
    const header = { op: OpCode.BROADCAST, dtype: DtypeCode.FLOAT32, algorithm: Algorithm.RING, root: 1, count: 1 };
    await theirs.send(createFrame({ ...emptyHeader(FrameKind.DATA, 1), ...header }, 4));
    await theirs.send(createFrame({ ...emptyHeader(FrameKind.CALL, 1), ...header, step: 1 }, 0));
    await late;
    expect(lost.isCompleted()).toBe(false);
    clock.advance(100);
    expect(lost.isCompleted()).toBe(true);
    const error = await errorOf(lost);
    expect(error).toBeInstanceOf(TimeoutError);
    expect(error.message).toMatch(/rank 0 waited 200 ms in collective #1 broadcast/);
    expect(error.context.missing).toEqual([1]);
  });

  test('a timeout reports the ops in flight, however many messages have passed since', async () => {
    const errors = await runWorld(3, async (group) => {
      if (group.rank === 2) return pause(700).then(() => null);
      const work = group.allReduce(Float32Array.of(1), { timeoutMs: 400 });
      for (let i = 0; i < 1100; i++) {
        if (group.rank === 0) await group.send(Float32Array.of(i), 1);
        else await group.recv(new Float32Array(1), 0);
      }
      return errorOf(work);
    });
    for (const error of errors.slice(0, 2)) {
      expect(error!.message).toMatch(/Rank 2 has called no collective at all\. Ranks 0, 1 called allReduce/);
      expect(error!.context.missing).toEqual([2]);
    }
  });

  test('a timeout blames no rank that is through with the op, however many messages have passed since', async () => {
    const clock = new ManualClock();
    const { meshes, links } = createMeshes(3);
    const [late, root, other] = meshes.map((mesh) => new ProcessGroup(mesh, { clock }));
    loseAllButNews(links[2]!.get(0)!);
    const [work] = [late, root, other].map((group) => group!.broadcast(new Float32Array(4), 1));
    for (let i = 0; i < 1100; i++) {
      await Promise.all([root!.send(new Float32Array(1), 2), other!.recv(new Float32Array(1), 1)]);
    }
    clock.advance(DEFAULT_OP_TIMEOUT_MS);
    const error = await errorOf(work!);
    expect(error.message).toMatch(/; it has 0 of 4 elements of rank 2\. Ranks 1, 2 have completed it\. Rank 0 called/);
    expect(error.context.missing).toEqual([]);
  });

  test('a rank that receives a timeout blames the ranks whose reports it misses itself', async () => {
    const clock = new ManualClock();
    const { meshes } = createMeshes(3);
    const groups = meshes.map((mesh) => new ProcessGroup(mesh, { clock }));
    const [first, second] = [1000, 5000].map((timeoutMs, rank) =>
      errorOf(groups[rank]!.allReduce(new Float32Array(4), { timeoutMs })),
    );
    clock.advance(1000);
    await pause(0);
    clock.advance(500);
    for (const [rank, error] of [await first!, await second!].entries()) {
      expect(error.name).toBe('TimeoutError');
      expect(error.context).toMatchObject({ rank, missing: [2] });
    }
  });

  test('a timeout blames the rank that has not sent its object, whatever it has called since', async () => {
    const clock = new ManualClock();
    const { meshes, links } = createMeshes(2);
    const [one, late] = meshes.map((mesh) => new ProcessGroup(mesh, { clock }));
    // Rank 1 never learns how large rank 0's object is.
    loseAllButNews(links[0]!.get(1)!);
    const objects = errorOf(one!.allGatherObject(1, { timeoutMs: 1000 }));
    void errorOf(late!.allGatherObject(2));
    void late!.barrier();
    await pause(0);
    clock.advance(1000);
    const error = await objects;
    expect(error.message).toMatch(/in collective #1 allGather.*Rank 1 has called nothing after #2 barrier/);
    expect(error.context.missing).toEqual([1]);
  });

  test('a deadline may be as far away as one likes', async () => {
    await runWorld(2, async (group) => {
      if (group.rank === 1) await pause(5);
      await group.barrier({ timeoutMs: Infinity });
      await group.barrier({ timeoutMs: 2 ** 40 });
    });
  });

  test('a reduction takes its senders in turn: those behind a slow one keep their data', async () => {
    const count = 500_000;
    const { meshes, links } = createMeshes(4);
    const groups = meshes.map((mesh) => new ProcessGroup(mesh));
    const reduce = (rank: number) =>
      groups[rank]!.reduce(new Float32Array(count).fill(rank), 0, { algorithm: 'direct' });
    const works = [0, 2, 3].map(reduce);
    await pause(20);
    // Rank 1 comes first in the sum, and has not come.
    const received = links
      .flatMap((mine) => [...mine.values()])
      .reduce((sum, { counters }) => sum + counters.bytesReceived, 0);
    expect(received).toBeLessThan(2 * 300_000);
    const [sum] = await Promise.all([...works, reduce(1)]);
    expect(sum[count - 1]).toBe(6);
    for (const group of groups) group.destroy();
  });
});

describe('lost links', () => {
  test('a rank that receives the error of another knows which link it was', async () => {
    const { meshes, links } = createMeshes(4);
    const groups = meshes.map((mesh) => new ProcessGroup(mesh));
    const works = groups.map((group) => errorOf(group.allReduce(new Float32Array(10), { timeoutMs: 2000 })));
    links[0]!.get(1)!.close();
    for (const { context } of await Promise.all(works)) {
      expect(new Set([context.rank, ...context.missing!])).toEqual(new Set([0, 1]));
    }
  });

  test('a rank that passes the error on to another group leaves it as it is', async () => {
    const errors = await runWorld(3, async (world) => {
      const pair = await world.newGroup([1, 2]);
      const lost = new PeerGoneError('Rank 0 lost its link to rank 1.', { rank: 0, missing: [1] });
      if (world.rank === 2) pair.abort(lost);
      return world.rank === 1 ? errorOf(pair.barrier({ timeoutMs: 2000 })) : null;
    });
    expect(errors[1]!.context).toMatchObject({ rank: 0, missing: [1] });
  });
});

describe('hostile ranks', () => {
  test.each([
    [
      'collectives that nobody has called',
      { op: OpCode.ALL_REDUCE, algorithm: Algorithm.RING },
      /of collectives that rank 0 has not/,
    ],
    [
      'messages that rank 0 does not receive yet',
      { op: OpCode.SEND, algorithm: Algorithm.DIRECT },
      /of messages that rank 0 does not receive yet/,
    ],
  ])("cannot fill a rank's memory with %s", async (_what, of, message) => {
    const { group, theirs } = hostage();
    const work = group.barrier();
    const header = { ...emptyHeader(FrameKind.DATA, 1), ...of, dtype: DtypeCode.FLOAT32, count: 15_000 };
    for (let seq = 1; seq < 800 && group.failure === null; seq++) {
      await theirs.send(createFrame({ ...header, seq }, 60_000)).catch(() => {});
    }
    const error = await errorOf(work);
    expect(error).toBeInstanceOf(ProtocolError);
    expect(error.message).toMatch(message);
  });

  test("cannot fill a rank's memory by sending to several groups, each within its bounds", async () => {
    const { meshes, links } = createMeshes(2);
    const worlds = meshes.map((mesh) => new ProcessGroup(mesh));
    for (let i = 0; i < 4; i++) await Promise.all(worlds.map((world) => world.newGroup([0, 1])));
    await park(links[1]!.get(0)!, [0, 1, 2, 3, 4], 18 * 2 ** 20);
    expect(worlds[0]!.failure).toBeInstanceOf(ProtocolError);
    expect(worlds[0]!.failure!.message).toMatch(
      /^Rank 1 sent more than 80 MiB, over all groups, of collectives that rank 0 has not called/,
    );
  });

  test('may send as much ahead in each of three groups as in one', async () => {
    const sums = await runWorld(2, async (world) => {
      const groups = [world, await world.newGroup([0, 1]), await world.newGroup([0, 1])];
      if (world.rank === 1) await new Promise((resolve) => setTimeout(resolve, 50));
      const works = groups.flatMap((group) =>
        Array.from({ length: 64 }, () => group.allReduce(new Float32Array(70_000).fill(1))),
      );
      const results = await Promise.all(works);
      return results.every((result) => result[69_999] === 2);
    });
    expect(sums).toEqual([true, true]);
  });

  test.each([
    ['collectives', { op: OpCode.ALL_REDUCE, algorithm: Algorithm.RING }, 18],
    ['messages', { op: OpCode.SEND, algorithm: Algorithm.DIRECT }, 9],
  ])('may send %s ahead again once the group that they were for has ended', async (_what, of, mebibytes) => {
    const { meshes, links } = createMeshes(2);
    const worlds = meshes.map((mesh) => new ProcessGroup(mesh));
    for (let group = 1; group < 4; group++) {
      const pair = await Promise.all(worlds.map((world) => world.newGroup([0, 1])));
      await park(links[1]!.get(0)!, [group], mebibytes * 2 ** 20, of);
      pair[0]!.destroy();
    }
    expect(worlds[0]!.failure).toBeNull();
  });

  test('have no say in groups that they are no members of', async () => {
    await runWorld(3, async (world) => {
      const pair = await world.newGroup([0, 1]);
      if (world.rank === 2) pair.abort(new Error('from outside'));
      await world.barrier();
      const [sum] = await pair.allReduce(Float32Array.of(1));
      expect(sum).toBe(world.rank === 2 ? 1 : 2);
      expect(pair.failure).toBeNull();
    });
  });

  test.each([
    ['an invalid flood message', () => encodeJsonFrame(emptyHeader(FrameKind.FLOOD, 1), { origin: 'x' })],
    [
      'an abort by no name of ours',
      () =>
        encodeJsonFrame(emptyHeader(FrameKind.FLOOD, 1), {
          origin: 1,
          id: 0,
          group: 0,
          body: { type: 'abort', name: 'constructor', message: 'over' },
        }),
    ],
  ])('end a group by %s as an error of ours', async (_what, frame) => {
    const { group, theirs } = hostage();
    const work = group.barrier();
    await theirs.send(frame());
    const error = await errorOf(work);
    expect([ProtocolError, PeerGoneError]).toContain(error.constructor);
    expect(error.message).toMatch(/Rank 1 sent a frame that cannot be read|over/);
  });
});

describe('a group that has failed', () => {
  test('sends no more of a message, whose record says that it failed', async () => {
    const { meshes, links } = createMeshes(2);
    const [sender, receiver] = meshes.map((mesh) => new ProcessGroup(mesh));
    const link = links[0]!.get(1)!;
    const send = link.send.bind(link);
    const hasRoom = deferred();
    const sends = vi.spyOn(link, 'send').mockImplementation(async (frame) => {
      await send(frame);
      await hasRoom.promise;
    });
    const work = sender!.isend(new Float32Array(100_000), 1);
    void receiver!.irecv(new Float32Array(100_000), 0);
    await pause(0);
    sender!.abort(new Error('over'));
    const before = sends.mock.calls.length;
    hasRoom.resolve();
    await pause(0);
    expect(sends).toHaveBeenCalledTimes(before);
    expect((await errorOf(work)).message).toBe('over');
    const [record] = sender!.flightRecording.records;
    expect(record).toMatchObject({ state: 'failed', bytesSent: work.bytesSent });
    expect(record!.bytesSent).toBeLessThan(70_000);
  });

  test('does not end a message that has just been sent', async () => {
    const { meshes, links } = createMeshes(2);
    const [sender, receiver] = meshes.map((mesh) => new ProcessGroup(mesh));
    const link = links[0]!.get(1)!;
    const hasRoom = deferred();
    const work = sender!.isend(Float32Array.of(1), 1);
    const send = link.send.bind(link);
    vi.spyOn(link, 'send').mockImplementation((frame) => send(frame).then(() => hasRoom.promise));
    const last = sender!.isend(Float32Array.of(2), 1, { tag: 1 });
    await Promise.all([
      work,
      receiver!.irecv(new Float32Array(1), 0),
      receiver!.irecv(new Float32Array(1), 0, { tag: 1 }),
    ]);
    await pause(0);
    sender!.abort(new Error('over'));
    hasRoom.resolve();
    await pause(0);
    expect((await errorOf(last)).message).toBe('over');
    expect(sender!.flightRecording.records.map(({ state }) => state)).toEqual(['completed', 'failed']);
  });
});

describe('a rank that cannot go on itself', () => {
  test('because a result does not fit its memory fails the op and the group', async () => {
    const groups = timelessPair();
    const works = groups.map((group) => group.allGather(new Float32Array(1000)));
    vi.spyOn(Float32Array.prototype, 'slice').mockImplementationOnce(() => {
      throw new RangeError('Array buffer allocation failed');
    });
    const outcomes = await Promise.allSettled(works);
    const at = outcomes.findIndex(({ status }) => status === 'rejected');
    const error = groups[at]!.failure as PeergradError;
    expect(error.message).toMatch(
      `Rank ${at} cannot complete collective #0 allGather(2000 float32): Array buffer allocation failed.`,
    );
    expect(error.cause).toBeInstanceOf(RangeError);
    expect(error.context).toMatchObject({ rank: at, seq: 0 });
    expect(groups[at]!.flightRecording.records[0]!.state).toBe('failed');
    await pause(0);
    expect(groups[1 - at]!.failure).toBeInstanceOf(PeerGoneError);
    expect(groups[1 - at]!.failure!.message).toBe(error.message);
  });

  test.each([
    [
      'a message that it sends',
      async ([one, other]: [ProcessGroup, ProcessGroup]) => {
        const tensor = new Float32Array(100_000);
        const work = one.isend(tensor, 1);
        await pause(0);
        giveAway(tensor);
        return [work, other.irecv(new Float32Array(100_000), 0)];
      },
      'Rank 0 cannot complete send(100000 float32 to rank 1, tag 0): ',
    ],
    [
      'a message of which a part is sent',
      async ([one, other]: [ProcessGroup, ProcessGroup]) => {
        const tensor = new Float32Array(100_000);
        const work = one.isend(tensor, 1);
        // Between its first and its second segment.
        giveAway(tensor);
        return [work, other.irecv(new Float32Array(100_000), 0)];
      },
      'Rank 0 cannot complete send(100000 float32 to rank 1, tag 0): ',
    ],
    [
      'a message that it receives',
      async ([one, other]: [ProcessGroup, ProcessGroup]) => {
        const tensor = new Float32Array(100_000);
        const work = other.irecv(tensor, 0);
        giveAway(tensor);
        return [work, one.isend(new Float32Array(100_000), 1)];
      },
      'Rank 1 cannot complete recv(100000 float32 from rank 0, tag 0): ',
    ],
    [
      'a collective',
      async ([one, other]: [ProcessGroup, ProcessGroup]) => {
        const tensor = new Float32Array(100_000);
        const work = one.allReduce(tensor);
        await pause(0);
        giveAway(tensor);
        return [work, other.allReduce(new Float32Array(100_000))];
      },
      'Rank 0 cannot complete collective #0 allReduce(100000 float32, SUM): ',
    ],
  ])('because the tensor of %s was given away says so on all ranks', async (_what, main, message) => {
    const [first, second] = await main(timelessPair());
    const error = await errorOf(first!);
    expect(error.message).toContain(message);
    expect(error.message).toContain('detached');
    expect((await errorOf(second!)).message).toBe(error.message);
  });
});

describe('groups', () => {
  test('a receive from anybody in a subgroup tells the global rank', async () => {
    const senders = await runWorld(4, async (world) => {
      const group = await world.newGroup([2, 3]);
      if (world.rank === 3) await group.send(Float32Array.of(7), 2);
      return world.rank === 2 ? group.recv(new Float32Array(1)) : null;
    });
    expect(senders[2]).toBe(3);
  });

  test('end with their generation, subgroups too, and say why', async () => {
    const { meshes } = createMeshes(2);
    const worlds = meshes.map((mesh) => new ProcessGroup(mesh));
    const pairs = await Promise.all(worlds.map((world) => world.newGroup([1, 0])));
    const work = pairs[0]!.barrier();
    meshes[0]!.end(new PeerGoneError('the room closed'));
    expect((await errorOf(work)).message).toBe('the room closed');
    expect((await errorOf(worlds[0]!.barrier())).message).toBe('the room closed');
    expect(worlds[1]!.failure).toBeNull();
  });

  test('that cannot be made leave nothing behind', async () => {
    const { meshes } = createMeshes(2);
    const worlds = meshes.map((mesh) => new ProcessGroup(mesh));
    const registered = meshes.map(watchGroups);
    const errors = await Promise.all(
      worlds.map((world) => errorOf(world.newGroup(world.rank === 0 ? [0, 1] : [1, 0]))),
    );
    for (const error of errors) expect(error).toBeInstanceOf(MismatchError);
    expect(registered).toEqual([new Set(), new Set()]);
  });

  test('that cannot all be made leave none behind', async () => {
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

  test('are not made of one that is over: links stay with their new owner', async () => {
    const { meshes, links } = createMeshes(2);
    const world = new ProcessGroup(meshes[0]!);
    world.destroy();
    const link = links[0]!.get(1)!;
    const [onframe, onclose] = [vi.fn(), vi.fn()];
    Object.assign(link, { onframe, onclose });
    expect((await errorOf(world.newGroup([0, 1]))).message).toMatch(/Rank 0 has left this process group/);
    expect([link.onframe, link.onclose]).toEqual([onframe, onclose]);
  });

  test('of a world in another order name its ranks where they cannot be made', async () => {
    const { meshes } = createMeshes(2);
    const order = [1, 0];
    const worlds = meshes.map((mesh) => new ProcessGroup(mesh, {}, order));
    const errors = await Promise.all(worlds.map((world, rank) => errorOf(world.newGroup([rank]))));
    expect(errors.map(({ message }) => message)).toEqual([
      'newGroup was called with other ranks on rank 0 than on rank 1; rank 0 passed 0.',
      'newGroup was called with other ranks on rank 0 than on rank 1; rank 1 passed 1.',
    ]);
    expect(errors.map(({ context }) => context.rank)).toEqual([0, 1]);
  });

  test('are refused beyond as many as frames can number, and those that are there go on', async () => {
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

  test('keep their ranks, whatever becomes of the array that named them', async () => {
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

  test("fail everywhere when one rank's reduction makes no sense to the others", async () => {
    const errors = await runWorld(3, (group) =>
      errorOf(group.allReduce(Int32Array.of(1), { op: group.rank === 1 ? ReduceOp.BOR : ReduceOp.SUM })),
    );
    for (const error of errors) {
      expect(error).toBeInstanceOf(MismatchError);
      expect(error.message).toMatch(
        /Ranks 0, 2 called allReduce\(1 int32, SUM\)\. Rank 1 called allReduce\(1 int32, BOR\)/,
      );
    }
    // A call that is refused takes no number: what comes next is in order.
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
