/**
 * Cases of functions around collectives: buckets, samplers, weighted averages, and the float16 and
 * int8 codecs.
 */
import { codecByName } from '../../src/collectives/codecs.ts';
import { FRAME_HEADER_BYTES, ReduceOp } from '../../src/protocol/frame.ts';
import { assignBuckets } from '../../src/parallel/flat/buckets.ts';
import { equalPartOfWindow, GlobalCursor, type DataCursorPosition } from '../../src/parallel/data/cursor.ts';
import { DistributedSampler } from '../../src/parallel/data/distributedSampler.ts';
import { UsageError } from '../../src/util/errors.ts';
import { fromHalf, toHalf } from '../../src/util/float16.ts';
import { createRng } from '../../src/util/rng.ts';
import type { ConformanceCase } from './case.ts';
import { expectClose, expectEqual, expectThat, expectThrow } from './expect.ts';
import { range } from './values.ts';

const f32 = (elements: number) => ({ bytes: elements * 4, dtype: 'float32' });
const f64 = (elements: number) => ({ bytes: elements * 8, dtype: 'float64' });
const mixed = (pairs: number) => range(pairs).flatMap(() => [f32(50), f64(25)]);

const BUCKETS: [string, ReturnType<typeof f32>[], number[], number[][]][] = [
  ['4 x [10] float32', range(4).map(() => f32(10)), [40, 80], [[0], [1, 2], [3]]],
  ['2 dtypes, 1 limit', mixed(3), [400], [[0, 2], [1, 3], [4], [5]]],
  ['2 dtypes, 2 limits', mixed(3), [200, 400], [[0], [1], [2, 4], [3, 5]]],
  ['2 dtypes, 10 tensors', mixed(5), [200, 400], [[0], [1], [2, 4], [3, 5], [6, 8], [7, 9]]],
  ['4 x [100] float32', range(4).map(() => f32(100)), [400], [[0], [1], [2], [3]]],
];

/** Returns the sampler's indices of every rank, without shuffling. */
function sharesOf(size: number, numReplicas: number, dropLast = false): number[][] {
  return range(numReplicas).map((rank) => [
    ...new DistributedSampler(size, { numReplicas, rank, shuffle: false, dropLast }),
  ]);
}

/**
 * Returns approximately standard normal numbers: each is a sum of twelve uniform numbers, minus 6.
 */
function normal(count: number): Float32Array {
  const rng = createRng(53);
  return Float32Array.from({ length: count }, () => range(12).reduce((sum) => sum + rng.next(), -6));
}

export const PARALLEL_CASES: readonly ConformanceCase[] = [
  {
    number: 37,
    title: 'assignBuckets fills buckets up to their size limits',
    check: () => {
      for (const [name, items, limits, expected] of BUCKETS) {
        expectEqual(assignBuckets(items, limits), expected, `${name}, limits ${limits.join(', ')}`);
      }
    },
  },
  {
    number: 44,
    title: 'DistributedSampler assigns the same indices as torch',
    check: () => {
      expectEqual(
        sharesOf(10, 4),
        [
          [0, 4, 8],
          [1, 5, 9],
          [2, 6, 0],
          [3, 7, 1],
        ],
        '(10, 4)',
      );
      expectEqual(
        sharesOf(10, 4, true),
        [
          [0, 4],
          [1, 5],
          [2, 6],
          [3, 7],
        ],
        '(10, 4, drop)',
      );
      expectEqual(sharesOf(11, 4).at(-1), [3, 7, 0], '(11, 4), last rank');
      expectEqual(sharesOf(3, 8).flat(), [0, 1, 2, 0, 1, 2, 0, 1], '(3, 8)');
      expectEqual(sharesOf(1, 4).flat(), [0, 0, 0, 0], '(1, 4)');
      expectEqual(sharesOf(3, 4, true), [[], [], [], []], '(3, 4, drop)');
      const large = sharesOf(105, 4);
      expectEqual(
        large.map((share) => share.length),
        [27, 27, 27, 27],
        '(105, 4), lengths',
      );
      expectEqual(
        large.map((share) => share.at(-1)),
        [104, 0, 1, 2],
        '(105, 4), tails',
      );
      for (const rank of [-1, 4]) {
        const create = () => new DistributedSampler(10, { numReplicas: 4, rank });
        expectThrow(create, UsageError, `Rank ${rank}`, `rank ${rank} of 4`);
      }
    },
  },
  {
    number: 60,
    title: 'an epoch continues after its last commit with more or fewer ranks, and uses each sample exactly once',
    check: () => {
      const cursor = new GlobalCursor({ datasetSize: 20, seed: 3 });
      const batch = 2;
      /** Returns the samples of every rank in the window at `position`, and the next position. */
      const shares = (position: DataCursorPosition, ranks: number) => {
        const { indices, next } = cursor.windowAt(position, batch * ranks);
        return { samples: range(ranks).map((rank) => [...equalPartOfWindow(indices, rank, ranks)]), next };
      };
      // Two ranks take two batches of 2: these 8 samples are committed. Two more batches are lost.
      const first = shares({ epoch: 0, offset: 0 }, 2);
      const second = shares(first.next, 2);
      const committed = second.next;
      expectEqual(committed, { epoch: 0, offset: 8 }, 'position after two batches of two ranks');
      const third = shares(committed, 2);
      shares(third.next, 2);
      expectEqual(shares(committed, 2), third, 'the window after the commit, once more');
      // The remaining 12 samples are divided equally by some world sizes and unequally by others.
      // 16 is more than remain.
      for (const ranks of [1, 2, 3, 4, 5, 7, 16]) {
        const seen = [first, second].flatMap(({ samples }) => samples.flat());
        for (let position = committed; position.epoch === 0;) {
          const { samples, next } = shares(position, ranks);
          seen.push(...samples.flat());
          position = next;
        }
        const inOrder = seen.toSorted((a, b) => a - b);
        expectEqual(inOrder, range(20), `samples of the epoch, ${ranks} ranks after the commit`);
      }
    },
  },
  {
    number: 50,
    title: 'PREMUL_SUM computes weighted averages, also with ranks of weight 0',
    worlds: [4],
    inTabs: true,
    run: async (group, n) => {
      const count = 1000;
      for (const isCounted of [() => true, (rank: number) => rank !== 2, (rank: number) => rank === 1]) {
        const rng = createRng(50);
        const weights = range(n).map((rank) => (0.01 + 9.99 * rng.next()) * Number(isCounted(rank)));
        const inputs = weights.map(() => range(count).map(() => Math.fround(rng.next() * 2 - 1)));
        const total = weights.reduce((a, b) => a + b);
        const expected = range(count).map(
          (i) => weights.reduce((sum, weight, rank) => sum + weight * inputs[rank]![i]!, 0) / total,
        );
        const factor = weights[group.rank]!;
        const mine = Float32Array.from(inputs[group.rank]!);
        const [values, [weight]] = await Promise.all([
          group.allReduce(mine, { op: ReduceOp.PREMUL_SUM, factor }),
          group.allReduce(Float32Array.of(factor)),
        ]);
        expectClose(
          values.map((value) => value / weight!),
          expected,
          1e-6,
          `weights ${weights.join(', ')}`,
        );
      }
    },
  },
  {
    number: 53,
    title: 'the float16 codec has small errors, and decodes zeros as zeros',
    check: () => {
      const values = normal(128 * 128 * 64);
      const decoded = fromHalf(toHalf(values));
      let squares = 0;
      values.forEach((value, i) => (squares += (value - decoded[i]!) ** 2));
      expectThat(squares / values.length < 5e-8, `mean squared error ${squares / values.length}, expected below 5e-8`);
      expectEqual(fromHalf(toHalf(new Float32Array(1000))), new Float32Array(1000), 'zeros');
    },
  },
  {
    number: 53,
    title: 'the int8 codec has small errors, and decodes zeros as zeros',
    check: () => {
      const codec = codecByName('int8')!;
      const decoded = (values: Float32Array): Float32Array => {
        const frame = new ArrayBuffer(FRAME_HEADER_BYTES + codec.bytesOf(values.length));
        codec.encode(values, frame, null);
        const result = new Float32Array(values.length);
        codec.decode(frame, result);
        return result;
      };
      const values = normal(128 * 128 * 64);
      const squares = decoded(values).reduce((sum, value, i) => sum + (value - values[i]!) ** 2, 0);
      const error = squares / values.length;
      expectThat(error < 8e-4, `mean squared error ${error}, expected below 8e-4`);
      expectEqual(decoded(new Float32Array(1000)), new Float32Array(1000), 'zeros');
    },
  },
  ...[1024, 65_536, 65_537, 1e9].map((chunk): ConformanceCase => ({
    number: 53,
    title: `a message is sent in frames of at most ${chunk} elements`,
    worlds: [2],
    options: { segmentElements: chunk },
    run: async (group) => {
      // A frame also has at most 65 536 bytes, the limit of data channels, whatever the option is.
      const largest = Math.min(chunk, (65_536 - 32) / 4);
      for (const count of [0, 1, 1023, 1024, 1025, 16_375, 16_376, 16_377, 100_000]) {
        if (group.rank === 1) {
          await group.recv(new Float32Array(count), 0);
          continue;
        }
        const work = group.isend(new Float32Array(count), 1);
        await work;
        const frames = Math.max(Math.ceil(count / largest), 1);
        expectEqual(work.bytesSent, count * 4 + frames * 32, `${count} elements: bytes of ${frames} frames`);
      }
    },
  })),
];
