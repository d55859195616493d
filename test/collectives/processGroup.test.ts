import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { Mesh } from '../../src/collectives/mesh.ts';
import type { ProcessGroupOptions } from '../../src/collectives/options.ts';
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { MAX_BYTES_BEFORE_READY } from '../../src/collectives/inFlightOp.ts';
import {
  AlgorithmCode,
  createFrame,
  DtypeCode,
  emptyFrameHeader,
  FRAME_HEADER_BYTES,
  FrameKind,
  MAX_FRAME_BYTES,
  OpCode,
  ReduceOp,
} from '../../src/protocol/frame.ts';
import { runWorld } from '../../src/testing/index.ts';
import type { Link } from '../../src/transport/link.ts';
import { createMemoryLinkPair } from '../../src/transport/memoryLink.ts';
import { MismatchError, PeerGoneError, ProtocolError, TimeoutError, UsageError } from '../../src/util/errors.ts';
import { errorOf } from '../errorOf.ts';

const WORLD_SIZES = [1, 2, 3, 4, 5, 7, 8, 16];
const SEGMENT_32 = { segmentElements: 32 };

/** Runs every rank to its end and returns the outcomes of all ranks. */
function outcomes(n: number, main: (group: ProcessGroup) => PromiseLike<unknown>, options = {}): Promise<Error[]> {
  return runWorld(n, (group) => errorOf(main(group)), options);
}

/** Creates one of two ranks. The test controls the other end of its link. */
function oneOfTwo(rank: number, link: Link, options: ProcessGroupOptions = {}, generation = 1): ProcessGroup {
  return new ProcessGroup(new Mesh({ rank, worldSize: 2, generation, links: new Map([[1 - rank, link]]) }), options);
}

/** Creates a world of one rank. */
function alone(): ProcessGroup {
  return new ProcessGroup(new Mesh({ rank: 0, worldSize: 1, generation: 1, links: new Map() }));
}

describe('allReduce', () => {
  test.each(WORLD_SIZES)(
    'ends with the same bits on all of %i ranks, close to the exact sum, for any values',
    async (n) => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.array(fc.float({ noNaN: true, min: -1000, max: 1000 }), { minLength: 50, maxLength: 50 }), {
            minLength: n,
            maxLength: n,
          }),
          async (inputs) => {
            const results = await runWorld(
              n,
              (group) => Promise.resolve(group.allReduce(Float32Array.from(inputs[group.rank]!))),
              { segmentElements: 3 },
            );
            for (const result of results) expect(result).toEqual(results[0]);
            results[0]!.forEach((value, i) => {
              const exact = inputs.reduce((sum, input) => sum + Math.fround(input[i]!), 0);
              expect(Math.abs(value - exact)).toBeLessThanOrEqual(1e-3);
            });
          },
        ),
        { numRuns: 10 },
      );
    },
  );

  test.each([
    ['a codec that does not support the op', { codec: 'fp16' }],
    ['a residual of another length', { residual: new Float32Array(3) }],
    ['an invalid bucket', { bucket: -1 }],
  ] as const)('does not change the tensor if it rejects %s', (_what, wrong) => {
    const tensor = Float32Array.of(8, 8);
    const options = { op: ReduceOp.PREMUL_SUM, factor: 0.5, ...wrong };
    expect(() => alone().allReduce(tensor, options)).toThrow(UsageError);
    expect(tensor).toEqual(Float32Array.of(8, 8));
  });

  test('does not change the tensor if the group has failed', async () => {
    const group = alone();
    group.destroy();
    const tensor = Float32Array.of(8);
    for (const call of [
      () => group.allReduce(tensor, { op: ReduceOp.PREMUL_SUM, factor: 0.5 }),
      () => group.reduce(tensor, 0, { op: ReduceOp.PREMUL_SUM, factor: 0.5 }),
    ]) {
      await errorOf(call());
      expect(tensor).toEqual(Float32Array.of(8));
    }
  });

  test('and three other reductions with PREMUL_SUM multiply each value once, before the sum', async () => {
    const premultiplied = { op: ReduceOp.PREMUL_SUM, factor: 0.5 };
    const results = await runWorld(2, async (group) => [
      await group.allReduce(Float32Array.of(8), premultiplied),
      await group.reduce(Float32Array.of(4), 0, premultiplied),
      await group.reduceScatter(Float32Array.of(2, 2), premultiplied),
      ...(await group.allReduceCoalesced([Float32Array.of(8)], premultiplied)),
    ]);
    expect(results[0]!.map(([sum]) => sum)).toEqual([8, 4, 2, 8]);
  });

  test.each([
    ['the codec', { codec: 'fp16' }],
    ['the length of the residual', { residual: new Float32Array(1).fill(7) }],
  ] as const)('sends no tensor of a coalesced call if %s is invalid for one tensor', async (_what, options) => {
    await runWorld(2, async (group) => {
      const tensors = [Float32Array.of(1), Int32Array.of(1, 2)];
      if (group.rank === 0) expect(() => group.allReduceCoalesced(tensors, options)).toThrow(UsageError);
      if ('residual' in options) expect(options.residual[0]).toBe(7);
      expect(group.flightRecording.records).toEqual([]);
      // No sequence number was used, so the next op has the same number on all ranks.
      await group.barrier();
    });
  });

  test.each([2, 3, 4, 8])('sends 2(n-1)/n of the tensor, plus at most 1 % for framing, with %i ranks', async (n) => {
    const count = 262_144;
    const sent = await runWorld(n, async (group) => {
      const work = group.allReduce(new Float32Array(count));
      await work;
      expect(work.bytesSent).toBe(group.bytesSent);
      return work.bytesSent;
    });
    const theory = ((2 * (n - 1)) / n) * count * 4;
    for (const bytes of sent) {
      expect(bytes / theory).toBeGreaterThanOrEqual(0.999);
      expect(bytes / theory).toBeLessThanOrEqual(1.01);
    }
  });

  test('reports when each chunk of the ring plan was sent and when it was received', async () => {
    const traces = await runWorld(3, async (group) => {
      const work = group.allReduce(new Float32Array(9));
      expect(work.trace).toBeNull();
      await work;
      return work.trace!;
    });
    for (const { hops, startedAt } of traces) {
      expect(hops.map(({ planStep }) => planStep)).toEqual([0, 1, 2, 3]);
      for (const { sentAt, receivedAt } of hops) {
        expect(sentAt).toBeGreaterThanOrEqual(startedAt);
        expect(receivedAt).toBeGreaterThanOrEqual(startedAt);
      }
    }
  });

  test('sends only the eager bytes to a late rank, and completes when that rank calls the op', async () => {
    const [mine, theirs] = createMemoryLinkPair();
    const early = oneOfTwo(0, mine);
    const late = oneOfTwo(1, theirs);
    const count = 2 * MAX_BYTES_BEFORE_READY;
    const works = [1, 2, 3].map((value) => early.allReduce(new Float32Array(count).fill(value)));
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(theirs.counters.bytesReceived).toBeLessThan(4 * MAX_BYTES_BEFORE_READY);
    expect(theirs.counters.bytesReceived).toBeGreaterThan(2 * MAX_BYTES_BEFORE_READY);
    // This rank awaits each op before the next, and the other rank issues all ops at once. The
    // order is the same.
    for (const value of [10, 20, 30]) {
      expect((await late.allReduce(new Float32Array(count).fill(value)))[count - 1]).toBe(value * 1.1);
    }
    await Promise.all(works);
    expect(mine.counters.bytesReceived).toBe(theirs.counters.bytesReceived);
  });
});

test('an all-reduce of few bytes, and an all-gather of non-empty parts, send only data frames', async () => {
  const links = createMemoryLinkPair();
  const groups = links.map((link, rank) => oneOfTwo(rank, link));
  const chunk = MAX_BYTES_BEFORE_READY / Float32Array.BYTES_PER_ELEMENT;
  await Promise.all(groups.map((group) => group.allReduce(new Float32Array(2 * chunk))));
  const frames = Math.ceil(MAX_BYTES_BEFORE_READY / (MAX_FRAME_BYTES - FRAME_HEADER_BYTES));
  expect(links.map(({ counters }) => counters.framesSent)).toEqual([2 * frames, 2 * frames]);
  await Promise.all(groups.map((group) => group.allGather(Float32Array.of(group.rank))));
  expect(links.map(({ counters }) => counters.framesSent)).toEqual([2 * frames + 1, 2 * frames + 1]);
});

describe('broadcast', () => {
  test.each(WORLD_SIZES)('copies the tensor of every root in turn to all of %i ranks', async (n) => {
    for (let src = 0; src < n; src++) {
      for (const count of [0, 1, 10, 1000]) {
        const results = await runWorld(
          n,
          (group) =>
            Promise.resolve(
              group.broadcast(
                Float32Array.from({ length: count }, (_, i) => i + group.rank * 7),
                src,
              ),
            ),
          SEGMENT_32,
        );
        for (const result of results)
          expect(result).toEqual(Float32Array.from({ length: count }, (_, i) => i + src * 7));
      }
    }
  });

  test('rejects a root that does not exist', async () => {
    await runWorld(2, async (group) => {
      for (const src of [-1, 2]) expect(() => group.broadcast(new Float32Array(1), src)).toThrow(/Invalid root rank/);
      expect(() => group.broadcast(new Float32Array(1), 0.5)).toThrow(UsageError);
    });
  });
});

describe('allGather', () => {
  test.each([1, 2, 4, 7])('copies the tensor of every rank to all of %i ranks, in rank order', async (n) => {
    for (const count of [0, 4, 100, 1000]) {
      const results = await runWorld(
        n,
        (group) => Promise.resolve(group.allGather(Float32Array.from({ length: count }, (_, k) => group.rank + k * n))),
        SEGMENT_32,
      );
      for (const parts of results) {
        parts.forEach((part, j) => expect(part).toEqual(Float32Array.from({ length: count }, (_, k) => j + k * n)));
      }
    }
  });
});

describe('a process group', () => {
  test('names its rank, the op and the missing ranks in the error if a rank does not call the op', async () => {
    const errors = await outcomes(3, (group) =>
      group.rank === 1
        ? new Promise((_resolve, reject) => setTimeout(() => reject(new Error('absent')), 60))
        : group.allReduce(new Float32Array(12), { timeoutMs: 20 }),
    );
    for (const rank of [0, 2]) expect(errors[rank]).toBeInstanceOf(TimeoutError);
    expect(errors[2]!.message).toMatch(
      /^Timed out: rank \d waited 20 ms in collective #0 allReduce\(12 float32, SUM\); \d+ of 64 bytes have arrived.*; data of rank \d is missing\. Rank 1 has called no collective at all\. Ranks 0 and 2 called allReduce\(12 float32, SUM\)\.$/,
    );
    // One of the two ranks timed out itself. The other rank may have received that error.
    expect(errors.map((error) => (error as TimeoutError).context)).toContainEqual(
      expect.objectContaining({
        seq: 0,
        worldSize: 3,
        op: 'allReduce(12 float32, SUM)',
        missing: expect.arrayContaining([1]),
      }),
    );
  });

  test.each([
    ['allReduce', (group: ProcessGroup) => group.allReduce(new Float32Array(10), { timeoutMs: 10 })],
    ['broadcast', (group: ProcessGroup) => group.broadcast(new Float32Array(10), 1, { timeoutMs: 10 })],
    ['allGather', (group: ProcessGroup) => group.allGather(new Float32Array(10), { timeoutMs: 10 })],
    ['barrier', (group: ProcessGroup) => group.barrier({ timeoutMs: 10 })],
  ])('fails with a timeout on rank 0 if rank 1 never calls %s, also after a successful op', async (_name, call) => {
    const [first] = await runWorld(2, async (group) => {
      await group.allReduce(new Float32Array(3));
      return group.rank === 0 ? errorOf(call(group)) : null;
    });
    expect(first).toBeInstanceOf(TimeoutError);
    expect(first!.message).toContain('Timed out');
  });

  test.each([
    [
      'another op',
      (group: ProcessGroup) => (group.rank === 1 ? group.barrier() : group.allReduce(new Float32Array(4))),
    ],
    ['another root', (group: ProcessGroup) => group.broadcast(new Float32Array(4), group.rank === 1 ? 1 : 0)],
    ['another count', (group: ProcessGroup) => group.allReduce(new Float32Array(group.rank === 1 ? 400 : 4))],
    [
      'another reduce op',
      (group: ProcessGroup) =>
        group.allReduce(new Float32Array(4), { op: group.rank === 1 ? ReduceOp.AVG : ReduceOp.SUM }),
    ],
  ])('fails on every rank if the call of one rank has %s', async (_name, call) => {
    const errors = await outcomes(4, call);
    for (const error of errors) {
      expect(error).toBeInstanceOf(MismatchError);
      expect(error.message).toMatch(
        /^Ranks disagree about collective #0\. Ranks 0, 2 and 3 called \w+\(.*\)\. Rank 1 called \w+\(.*\)\. Every rank/,
      );
    }
  });

  test.each([2, 3, 4])(
    'fails on all other ranks immediately, without a timeout, if one of %i ranks crashes',
    async (n) => {
      const errors: Error[] = [];
      const world = runWorld(n, async (group) => {
        for (let i = 0; i < 3; i++) await group.allReduce(new Float32Array(100));
        if (group.rank === 0) throw new Error('crashed');
        errors.push(await errorOf(group.allReduce(new Float32Array(100), { timeoutMs: 5000 })));
      });
      await expect(world).rejects.toThrow('crashed');
      await vi.waitFor(() => expect(errors).toHaveLength(n - 1));
      // The error was received from other ranks. No deadline has passed.
      for (const error of errors) expect(error.message).toBe('crashed');
    },
  );

  test.each([
    ['barrier', (group: ProcessGroup) => group.barrier({ timeoutMs: 20 })],
    ['allGather', (group: ProcessGroup) => group.allGather(new Float32Array(3), { timeoutMs: 20 })],
  ])('names the absent rank in the errors of all other ranks if %s times out', async (_name, call) => {
    const errors: Error[] = [];
    await runWorld(5, async (group) => {
      if (group.rank === 0) return new Promise((resolve) => setTimeout(resolve, 80));
      errors.push(await errorOf(call(group)));
      return null;
    });
    expect(errors).toHaveLength(4);
    for (const error of errors as TimeoutError[]) {
      expect(error).toBeInstanceOf(TimeoutError);
      expect(error.message).toContain('Rank 0 has called no collective at all. Ranks 1, 2, 3 and 4 called');
      expect(error.context.missing).toEqual([0]);
    }
  });

  test('rejects values that are not typed arrays, and 16-bit words without dtype float16', () => {
    const group = alone();
    for (const [tensor, message] of [
      [[1, 2], /not Array\. Convert the value to a typed array/],
      [new Uint8ClampedArray(1), /not Uint8ClampedArray\. Convert the value to a typed array/],
      [new Uint16Array(1), /can only hold float16 bits\. Pass dtype/],
      [null, /not Null\. Convert the value to a typed array/],
    ] as const) {
      const odd = tensor as unknown as Float32Array;
      expect(() => group.allReduce(odd)).toThrow(message);
      expect(() => group.broadcast(odd, 0)).toThrow(message);
      expect(() => group.allGather(odd)).toThrow(message);
    }
    expect(() => group.allReduce(new Int32Array(1), { dtype: 'float16' })).toThrow(/must be bits in a Uint16Array/);
  });

  test('rejects more elements than a frame can count, before it allocates memory', async () => {
    const group = oneOfTwo(0, createMemoryLinkPair()[0]);
    // This array has a large length, but needs no memory.
    const huge = Object.defineProperty(new Uint8Array(1), 'length', { value: 2 ** 32 });
    const none = new Float32Array(0);
    for (const call of [
      () => group.allReduce(huge),
      () => group.broadcast(huge, 0),
      () => group.reduce(huge, 1),
      () => group.allGather(none, { sizes: [0, 2 ** 32] }),
      () => group.gather(none, 1, { sizes: [0, 2 ** 32] }),
      () => group.scatter(huge, 1, null),
      () => group.allToAll(none, { inputSplits: [0, 0], outputSplits: [0, 2 ** 32] }),
      () => group.reduceScatter(huge, { sizes: [0, 2 ** 32] }),
      () => group.isend(huge, 1),
      () => group.irecv(huge, 1),
    ]) {
      expect(call).toThrow(UsageError);
      expect(call).toThrow(/4294967295/);
    }
    expect(group.flightRecording.records).toEqual([]);
  });

  test('sends an error message of any length, cut to 4000 characters', async () => {
    const [mine, theirs] = createMemoryLinkPair();
    const group = oneOfTwo(0, mine);
    const other = oneOfTwo(1, theirs);
    const work = other.barrier();
    group.abort(new Error('x'.repeat(70_000)));
    expect((await errorOf(work)).message).toBe('x'.repeat(4000));
  });

  test('reports an error that arrived before the link closed, instead of the closed link', async () => {
    const [mine, theirs] = createMemoryLinkPair();
    oneOfTwo(1, theirs).abort(new MismatchError('differs'));
    theirs.close();
    await new Promise((resolve) => setTimeout(resolve, 2));
    const late = oneOfTwo(0, mine);
    expect(await errorOf(late.barrier())).toBeInstanceOf(MismatchError);
  });

  test('reports a closed link and the interrupted op, and rejects later ops with the same error', async () => {
    const [mine, theirs] = createMemoryLinkPair();
    const group = oneOfTwo(0, mine);
    const work = group.allReduce(new Float32Array(8));
    expect(work.isCompleted()).toBe(false);
    theirs.close();
    const error = await errorOf(work);
    expect(error).toBeInstanceOf(PeerGoneError);
    expect(error.message).toBe('Rank 0 lost its link to rank 1 during collective #0 allReduce(8 float32, SUM).');
    expect(work.isCompleted()).toBe(true);
    expect(await errorOf(group.barrier())).toBe(error);
    expect(group.failure).toBe(error);
  });

  test('ignores frames of another generation', async () => {
    const [mine, theirs] = createMemoryLinkPair();
    const group = oneOfTwo(0, mine, {}, 5);
    const header = { op: OpCode.BROADCAST, dtype: DtypeCode.FLOAT32, algorithm: AlgorithmCode.RING, root: 1, count: 1 };
    await theirs.send(createFrame({ ...emptyFrameHeader(FrameKind.DATA, 4), ...header }, 4));
    await theirs.send(createFrame({ ...emptyFrameHeader(FrameKind.CALL, 5), ...header, step: 1 }, 0));
    const work = group.broadcast(new Float32Array(1), 1);
    await new Promise((resolve) => setTimeout(resolve, 2));
    expect(work.isCompleted()).toBe(false);
    await theirs.send(createFrame({ ...emptyFrameHeader(FrameKind.DATA, 5), ...header }, 4));
    await work;
  });

  test.each([
    ['a frame that is too short', () => new ArrayBuffer(5), /shorter than its header/],
    [
      'a segment that arrives twice',
      () =>
        createFrame(
          { ...emptyFrameHeader(FrameKind.DATA, 1), op: OpCode.BROADCAST, dtype: 1, algorithm: 1, root: 1, count: 4 },
          64,
        ),
      /do not belong/,
    ],
    ['a second HELLO', () => createFrame(emptyFrameHeader(FrameKind.HELLO, 1), 0), /sent HELLO on a link/],
    ['a second HELLO-ACK', () => createFrame(emptyFrameHeader(FrameKind.HELLO_ACK, 1), 0), /sent HELLO-ACK on a link/],
  ])('fails with ProtocolError after %s', async (_name, frame, message) => {
    const [mine, theirs] = createMemoryLinkPair();
    const group = oneOfTwo(0, mine);
    const work = group.broadcast(new Float32Array(4), 1);
    await theirs.send(frame());
    const error = await errorOf(work);
    expect(error).toBeInstanceOf(ProtocolError);
    expect(error.message).toMatch(message);
  });

  test('counts the bytes of unexpected frames only when this rank calls the op of these frames', async () => {
    const received = await runWorld(2, async (group) => {
      const work = group.rank === 1 ? group.broadcast(new Float32Array(100), 1) : null;
      await new Promise((resolve) => setTimeout(resolve, 5));
      const before = group.bytesReceived;
      await (work ?? group.broadcast(new Float32Array(100), 1));
      return [before, group.bytesReceived];
    });
    expect(received[0]![0]).toBe(0);
    expect(received[0]![1]).toBeGreaterThan(400);
  });

  test('continues an op whose wait(timeoutMs) has timed out', async () => {
    await runWorld(2, async (group) => {
      if (group.rank === 1) await new Promise((resolve) => setTimeout(resolve, 30));
      const work = group.allReduce(new Float32Array([1]));
      if (group.rank === 0) expect(await errorOf(work.wait(5))).toBeInstanceOf(TimeoutError);
      expect((await work)[0]).toBe(2);
    });
  });

  test('rejects an invalid rank, a missing link to a neighbour, and ops after destroy', async () => {
    const unlinked = { worldSize: 2, generation: 1, links: new Map<number, Link>() };
    expect(() => new Mesh({ rank: 2, ...unlinked })).toThrow(UsageError);
    expect(() => new Mesh({ rank: 0, ...unlinked })).toThrow(/both neighbours/);
    const group = alone();
    group.destroy();
    expect((await errorOf(group.barrier())).message).toMatch(/has left this process group/);
  });
});
