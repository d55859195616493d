/** Tests with late or frozen ranks: deadlines, and the ranks that errors blame. */
import { describe, expect, test } from 'vitest';
import { DEFAULT_OP_TIMEOUT_MS, ProcessGroup } from '../../src/collectives/processGroup.ts';
import {
  AlgorithmCode,
  createFrame,
  DtypeCode,
  emptyFrameHeader,
  FrameKind,
  OpCode,
} from '../../src/protocol/frame.ts';
import { createMeshes, runWorld } from '../../src/testing/index.ts';
import { TimeoutError } from '../../src/util/errors.ts';
import { ManualClock } from '../manualClock.ts';
import { errorOf } from '../errorOf.ts';
import { pause, rankZeroOfTwo, loseAllButFloodMessages } from './faultyRanks.ts';

describe('late ranks:', () => {
  test("an object collective does not wait for this rank's later ops, which other ranks call only after the collective", async () => {
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

  test('an op that ends during the inquiry about its deadline does not make the group fail', async () => {
    await runWorld(3, async (group) => {
      if (group.rank === 2) {
        // The deadline of the other ranks passes, and then this rank calls before they have failed.
        await pause(45);
        await Promise.allSettled([group.allReduce(Float32Array.of(1))]);
        return;
      }
      const work = group.allReduce(Float32Array.of(1), { timeoutMs: 40 });
      const outcome = await work.then(
        () => 'done',
        () => 'failed',
      );
      // In both cases the group has the same outcome.
      expect(group.failure === null).toBe(outcome === 'done');
    });
  });

  test('an op that a rank never calls times out, even if its deadline passes during an inquiry about another op', async () => {
    const clock = new ManualClock();
    const { group, theirs } = rankZeroOfTwo({ clock, timeoutMs: 200 });
    const late = group.broadcast(new Float32Array(1), 1);
    const lost = group.broadcast(new Float32Array(1), 1);
    clock.advance(200);
    // Rank 1 calls the first op during the inquiry about it.
    const header = { op: OpCode.BROADCAST, dtype: DtypeCode.FLOAT32, algorithm: AlgorithmCode.RING, root: 1, count: 1 };
    await theirs.send(createFrame({ ...emptyFrameHeader(FrameKind.DATA, 1), ...header }, 4));
    await theirs.send(createFrame({ ...emptyFrameHeader(FrameKind.CALL, 1), ...header, step: 1 }, 0));
    await late;
    // The progress of an earlier op is progress of a later one, too.
    clock.advance(200);
    expect(lost.isCompleted()).toBe(false);
    clock.advance(100);
    expect(lost.isCompleted()).toBe(true);
    const error = await errorOf(lost);
    expect(error).toBeInstanceOf(TimeoutError);
    expect(error.message).toMatch(/rank 0 waited 200 ms in collective #1 broadcast/);
    expect(error.context.missing).toEqual([1]);
  });

  test('a timeout names ranks that called the op, even if they have sent 1100 messages since', async () => {
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
      expect(error!.message).toMatch(/Rank 2 has called no collective at all\. Ranks 0 and 1 called allReduce/);
      expect(error!.context.missing).toEqual([2]);
    }
  });

  test('a timeout does not blame ranks that completed the op, even if they have sent 1100 messages since', async () => {
    const clock = new ManualClock();
    const { meshes, links } = createMeshes(3);
    const [late, root, other] = meshes.map((mesh) => new ProcessGroup(mesh, { clock }));
    loseAllButFloodMessages(links[2]!.get(0)!);
    const [work] = [late, root, other].map((group) => group!.broadcast(new Float32Array(4), 1));
    for (let i = 0; i < 1100; i++) {
      await Promise.all([root!.send(new Float32Array(1), 2), other!.recv(new Float32Array(1), 1)]);
    }
    clock.advance(DEFAULT_OP_TIMEOUT_MS);
    const error = await errorOf(work!);
    expect(error.message).toMatch(
      /; 0 of 16 bytes have arrived; data of rank 2 is missing\. Ranks 1 and 2 have completed the collective\. Rank 0 called/,
    );
    expect(error.context.missing).toEqual([]);
  });

  test('a timeout on one rank also ends the op on another rank, and both blame the rank that sent no report', async () => {
    const clock = new ManualClock();
    const { meshes } = createMeshes(3);
    const groups = meshes.map((mesh) => new ProcessGroup(mesh, { clock }));
    const [first, second] = [1000, 5000].map((timeoutMs, rank) =>
      errorOf(groups[rank]!.allReduce(new Float32Array(4), { timeoutMs })),
    );
    await pause(0);
    clock.advance(1000);
    await pause(0);
    clock.advance(500);
    for (const [rank, error] of [await first!, await second!].entries()) {
      expect(error.name).toBe('TimeoutError');
      expect(error.context).toMatchObject({ rank, missing: [2] });
    }
  });

  test('a timeout blames the rank that has not sent its object, even if that rank has called later ops', async () => {
    const clock = new ManualClock();
    const { meshes, links } = createMeshes(2);
    const [one, late] = meshes.map((mesh) => new ProcessGroup(mesh, { clock }));
    // Rank 1 never receives the size of rank 0's object.
    loseAllButFloodMessages(links[0]!.get(1)!);
    const objects = errorOf(one!.allGatherObject(1, { timeoutMs: 1000 }));
    void errorOf(late!.allGatherObject(2));
    void late!.barrier();
    await pause(0);
    clock.advance(1000);
    const error = await objects;
    expect(error.message).toMatch(/in collective #1 allGather.*Rank 1 has called nothing after #2 barrier/);
    expect(error.context.missing).toEqual([1]);
  });

  test('a timeout can be infinite, or longer than setTimeout allows', async () => {
    const failures = await runWorld(2, async (group) => {
      if (group.rank === 1) await pause(5);
      await group.barrier({ timeoutMs: Infinity });
      await group.barrier({ timeoutMs: 2 ** 40 });
      return group.failure;
    });
    expect(failures).toEqual([null, null]);
  });

  test('a direct reduce receives from one rank at a time, so ranks after a late rank do not send their tensors yet', async () => {
    const count = 500_000;
    const { meshes, links } = createMeshes(4);
    const groups = meshes.map((mesh) => new ProcessGroup(mesh));
    const reduce = (rank: number) =>
      groups[rank]!.reduce(new Float32Array(count).fill(rank), 0, { algorithm: 'direct' });
    const works = [0, 2, 3].map(reduce);
    await pause(20);
    // Rank 1 is the first rank in the sum, and has not called the op.
    const received = links
      .flatMap((mine) => [...mine.values()])
      .reduce((sum, { counters }) => sum + counters.bytesReceived, 0);
    expect(received).toBeLessThan(2 * 300_000);
    const [sum] = await Promise.all([...works, reduce(1)]);
    expect(sum[count - 1]).toBe(6);
    for (const group of groups) group.destroy();
  });
});
