/**
 * Cases of all-reduce and of all reductions: their values, dtypes, ops and algorithms, and equal
 * bits on all ranks.
 */
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { ReduceOp } from '../../src/protocol/frame.ts';
import { createRng } from '../../src/util/rng.ts';
import type { ConformanceCase } from './case.ts';
import {
  DTYPES,
  expectedOf,
  factorOf,
  FLOAT32,
  inputOf,
  opsOf,
  repeated,
  valuesOf,
  wrap,
  type DtypeSample,
} from './dtypes.ts';
import { expectClose, expectEqual } from './expect.ts';
import { filled, range, sumOfRanks } from './values.ts';

/** World sizes of gloo's halving-doubling tests. */
export const GLOO_WORLDS = [...range(1, 9), 13, 16, 24, 32];
/**
 * Sizes in bytes. Worlds of more than 8 ranks use recursive doubling for the first,
 * halving-doubling for the second, and (up to 24 ranks) the ring for the third.
 */
const BYTES_OF_ALGORITHMS = [40, 45_000, 280_000];

async function sumsRanks(group: ProcessGroup, n: number, counts: readonly number[]): Promise<void> {
  for (const count of counts) {
    const tensor = await group.allReduce(filled(count, group.rank));
    expectEqual(tensor, filled(count, sumOfRanks(n)), `count ${count}`);
  }
}

/**
 * Reduces tensors of one dtype with one op by allReduce, by reduce to two roots, and by
 * reduceScatter.
 */
async function reducesEverywhere(
  group: ProcessGroup,
  dtype: DtypeSample,
  [name, op]: [string, ReduceOp],
  count: number,
): Promise<void> {
  const { rank, worldSize: n } = group;
  const where = `${name} of ${count} ${dtype.name}`;
  const input = () => dtype.of(inputOf(op, rank, n, count));
  const options = { ...dtype.options, op, ...(op === ReduceOp.PREMUL_SUM && { factor: factorOf(rank) }) };
  const expected = expectedOf(dtype, op, n, count);
  expectEqual(await group.allReduce(input(), options), expected, `allReduce ${where}`);
  // Another root only rotates a tree or a chain, so one root in the middle is enough.
  for (const [dst, algorithm] of [[n >> 1], [n - 1, 'direct']] as const) {
    const reduced = await group.reduce(input(), dst, { ...options, ...(algorithm && { algorithm }) });
    if (rank === dst) expectEqual(reduced, expected, `reduce to ${dst} ${algorithm ?? ''} ${where}`);
  }
  const sizes = range(n).map((r) => Math.floor(((r + 1) * count) / n) - Math.floor((r * count) / n));
  const start = sizes.slice(0, rank).reduce((a, b) => a + b, 0);
  const part = await group.reduceScatter(input(), { ...options, sizes });
  expectEqual(part, expected.slice(start, start + sizes[rank]!), `reduceScatter ${where}`);
}

const or = (values: readonly number[]): number => values.reduce((a, b) => a | b, 0);
const xor = (values: readonly number[]): number => values.reduce((a, b) => a ^ b, 0);

/** Cases of c10d's simple_reduce_tests: `mine` is this rank's value, `all` is the result. */
function simpleReductions(rank: number, n: number): { op: ReduceOp; dtype: DtypeSample; mine: number; all: number }[] {
  const int32 = DTYPES.find(({ name }) => name === 'int32')!;
  const factorial = range(1, n).reduce((a, b) => a * b, 1);
  return [
    { op: ReduceOp.SUM, dtype: FLOAT32, mine: rank + 1, all: (n * (n + 1)) / 2 },
    { op: ReduceOp.PRODUCT, dtype: FLOAT32, mine: rank + 1, all: factorial },
    { op: ReduceOp.MIN, dtype: FLOAT32, mine: rank + 1, all: 1 },
    { op: ReduceOp.MAX, dtype: FLOAT32, mine: rank + 1, all: n },
    { op: ReduceOp.AVG, dtype: FLOAT32, mine: rank + 1, all: (n + 1) / 2 },
    // Each case sets another bit on all ranks, so that results differ.
    ...range(4).map((i) => ({ op: ReduceOp.BAND, dtype: int32, mine: rank | (1 << i), all: 1 << i })),
    // Every rank combines `i` values first, so that the result is that of a larger world.
    ...range(1, 4).flatMap((i) => {
      const own = range(i).map((j) => rank * i + j);
      return [
        { op: ReduceOp.BOR, dtype: int32, mine: or(own), all: or(range(n * i)) },
        { op: ReduceOp.BXOR, dtype: int32, mine: xor(own), all: xor(range(n * i)) },
      ];
    }),
  ];
}

/**
 * Cases of torch's distributed_test: one rank has the value `master`, the other ranks have the
 * value `worker`.
 */
const MASTER_AND_WORKERS = [
  { op: ReduceOp.SUM, master: 2, worker: 10, expected: (n: number) => 2 + 10 * (n - 1) },
  // Results up to 2 * 10^10 are exact in float32.
  { op: ReduceOp.PRODUCT, master: 2, worker: 10, expected: (n: number) => 2 * 10 ** (n - 1) },
  { op: ReduceOp.MIN, master: 1010, worker: 1, expected: () => 1 },
  { op: ReduceOp.MAX, master: -1, worker: 10, expected: () => 10 },
];

/**
 * Values that floating-point arithmetic handles in a special way. `undefined` is replaced by an
 * ordinary value.
 */
const ODD_VALUES = [NaN, Infinity, -Infinity, -0, 0, undefined, 1e-45, 3.4e38];

/** Returns random integers from -100 to 100, which depend only on `seed` and `rank`. */
function integersOf(seed: number, rank: number, count: number): number[] {
  const rng = createRng(seed * 1000 + rank);
  return range(count).map(() => rng.below(201) - 100);
}

export const ALL_REDUCE_CASES: readonly ConformanceCase[] = [
  {
    number: 1,
    title: 'allReduce returns the sum over all ranks',
    worlds: range(1, 15),
    inTabs: true,
    run: (group, n) => sumsRanks(group, n, [0, 4, 100, 1000, 10_000]),
  },
  {
    number: 2,
    title: 'allReduce in segments of 128 bytes writes every sum to the right element',
    inTabs: true,
    worlds: [1, 2, 4, 7],
    options: { segmentElements: 32 },
    run: async (group, n) => {
      for (const buffers of [1, 2, 3]) {
        const stride = n * buffers;
        for (const count of [0, 1, 10, 100, 1000, 10_000]) {
          const expected = Float32Array.from(
            { length: count },
            (_, j) => j * stride ** 2 + (stride * (stride - 1)) / 2,
          );
          const local = new Float32Array(count);
          for (const p of range(buffers)) local.forEach((_, j) => (local[j]! += j * stride + group.rank * buffers + p));
          expectEqual(await group.allReduce(local), expected, `count ${count}, ${buffers} buffers`);
        }
      }
    },
  },
  {
    number: 3,
    title: 'allReduce returns the sum over all ranks with algorithms of log2(n) steps',
    worlds: GLOO_WORLDS,
    // Worlds of more than 8 ranks use halving-doubling and the ring for the last two counts.
    run: (group, n) => sumsRanks(group, n, [0, 1, 64, 1000, ...(n > 8 ? [11_250, 70_000] : [])]),
  },
  {
    number: 5,
    title: 'allReduce of float16 returns the sum over all ranks',
    worlds: [4],
    inTabs: true,
    run: async (group) => {
      const half = DTYPES.find(({ name }) => name === 'float16')!;
      const result = await group.allReduce(half.of(filled(1024, group.rank)), half.options);
      expectEqual(result, half.of(filled(1024, 6)), 'count 1024 float16');
    },
  },
  {
    number: 6,
    title: 'allReduce of fewer elements than ranks returns the sum, and stores the sum in place',
    worlds: [3, 4],
    inTabs: true,
    run: async (group, n) => {
      for (const count of n === 3 ? [2, 3] : [2]) {
        const tensor = filled(count, 1);
        expectEqual(await group.allReduce(tensor), filled(count, n), `count ${count}`);
        expectEqual(tensor, filled(count, n), `count ${count}: the tensor itself`);
      }
    },
  },
  {
    number: 7,
    title: 'allReduce returns the sum if the number of elements is not divisible by the world size',
    worlds: [3],
    inTabs: true,
    run: async (group, n) => {
      const inputs = range(n).map((rank) => {
        const rng = createRng(42 + rank);
        return Float32Array.from({ length: 1025 }, () => rng.next());
      });
      const expected = range(1025).map((i) => inputs.reduce((sum, input) => sum + input[i]!, 0));
      expectClose(await group.allReduce(inputs[group.rank]!.slice()), expected, 1e-5, 'count 1025');
    },
  },
  {
    number: 8,
    title: 'allReduce returns the exact sum of large tensors of every dtype except float16',
    worlds: [2],
    run: async (group) => {
      const count = 203_530;
      for (const dtype of DTYPES.filter(({ name }) => name !== 'float16')) {
        const input = repeated(
          dtype,
          range(60).map((i) => (i * 7 + group.rank * 3) % 60),
          count,
        );
        const expected = repeated(
          dtype,
          range(60).map((i) => ((i * 7) % 60) + ((i * 7 + 3) % 60)),
          count,
        );
        expectEqual(await group.allReduce(input), expected, `${count} ${dtype.name}`);
      }
    },
  },
  {
    number: 9,
    title: 'allReduce with codec int8 returns the sum of constants, also of zeros, with the same bits on all ranks',
    worlds: [2],
    inTabs: true,
    run: async (group) => {
      for (const [a, b, tolerance] of [
        // The scale of a block is its largest value divided by 127: here an integer, so nothing is
        // rounded.
        [127, 254, 0],
        [0, 0, 0],
        // Here the scale is rounded up to 17 bits. This error occurs twice: when the values are
        // sent, and when the sum is sent.
        [42, 43, 2 ** -15],
      ] as const) {
        const result = await group.allReduce(filled(1024, group.rank === 0 ? a : b), { codec: 'int8' });
        expectClose(result, filled(1024, a + b), tolerance, `${a} + ${b}`);
        const first = await group.broadcast(result.slice(), 0);
        expectEqual(result, first, `${a} + ${b}: bits of rank 0`);
      }
    },
  },
  {
    number: 10,
    title: 'allReduce with AVG, MIN and MAX returns the average, the minimum and the maximum',
    worlds: [2],
    inTabs: true,
    run: async (group) => {
      const [a, b] = [3, 8];
      for (const [op, expected] of [
        [ReduceOp.AVG, (a + b) / 2],
        [ReduceOp.MIN, a],
        [ReduceOp.MAX, b],
      ] as const) {
        const result = await group.allReduce(filled(1024, group.rank === 0 ? a : b), { op });
        expectEqual(result, filled(1024, expected), `op ${op}`);
      }
    },
  },
  {
    number: 11,
    title:
      'two allReduces in flight at the same time return both sums, with different buckets and with the same bucket',
    inTabs: true,
    worlds: [2],
    run: async (group) => {
      for (const [one, two] of [
        [0, 1],
        [7, 7],
      ] as const) {
        const works = [one, two].map((bucket, i) => group.allReduce(filled(256, i + group.rank), { bucket }));
        expectEqual(await Promise.all(works), [filled(256, 1), filled(256, 3)], `buckets ${one} and ${two}`);
      }
    },
  },
  {
    number: 13,
    title: 'allReduce, reduce and reduceScatter return the results of c10d’s simple reductions',
    worlds: range(1, 9),
    inTabs: true,
    run: async (group, n) => {
      const { rank } = group;
      for (const { op, dtype, mine, all } of simpleReductions(rank, n)) {
        const where = `op ${op} of ${dtype.name} ${mine}`;
        expectEqual(await group.allReduce(dtype.of([mine]), { op }), dtype.of([all]), `allReduce ${where}`);
        for (let dst = 0; dst < n; dst++) {
          const result = await group.reduce(dtype.of([mine]), dst, { op });
          if (rank === dst) expectEqual(result, dtype.of([all]), `reduce to ${dst} ${where}`);
        }
        const everywhere = dtype.of(Array.from({ length: n }, () => mine));
        expectEqual(await group.reduceScatter(everywhere, { op }), dtype.of([all]), `reduceScatter ${where}`);
      }
    },
  },
  {
    number: 17,
    title: 'allReduce and reduce are correct if one rank has another value than all other ranks',
    worlds: range(2, 8),
    inTabs: true,
    run: async (group, n) => {
      for (const { op, master, worker, expected } of MASTER_AND_WORKERS) {
        for (let src = 0; src < n; src++) {
          // Each turn has another count, so that turns cannot be confused.
          const count = src + 1;
          const mine = () => filled(count, group.rank === src ? master : worker);
          const result = filled(count, expected(n));
          expectEqual(await group.allReduce(mine(), { op }), result, `allReduce op ${op}, special rank ${src}`);
          const reduced = await group.reduce(mine(), src, { op });
          if (group.rank === src) expectEqual(reduced, result, `reduce op ${op}, special rank ${src}`);
        }
      }
    },
  },
  {
    number: 21,
    title: 'allReduce of random integers returns a tensor close to the exact sum',
    worlds: range(1, 14),
    inTabs: true,
    run: async (group, n) => {
      const tolerance = n <= 3 ? 0 : n < 10 ? 1e-4 : 5e-4;
      for (const dimensions of [1, 2, 3]) {
        const count = 17 ** dimensions;
        const inputs = range(n).map((rank) => integersOf(dimensions, rank, count));
        const expected = range(count).map((i) => inputs.reduce((sum, input) => sum + input[i]!, 0));
        for (const dtype of DTYPES.filter(({ name }) => ['float32', 'float64', 'int32', 'int64'].includes(name))) {
          const result = await group.allReduce(dtype.of(inputs[group.rank]!));
          expectClose(
            Array.from<number | bigint>(result).map(Number),
            expected,
            tolerance,
            `17^${dimensions} ${dtype.name}`,
          );
        }
      }
    },
  },
  {
    number: 22,
    title: '200 allReduces in flight can be polled with isCompleted, and their results are correct',
    worlds: [2, 3, 4, 8],
    inTabs: true,
    run: async (group, n) => {
      // These are more operations than may be in flight, so the last ones wait on this rank.
      const works = range(200).map((i) => group.allReduce(filled((i * 977) % 800, i + group.rank)));
      expectEqual(
        works.some((work) => !work.isCompleted()),
        true,
        'some operations are not done yet',
      );
      for (const [i, work] of works.entries()) {
        expectEqual(await work, filled((i * 977) % 800, n * i + sumOfRanks(n)), `handle ${i}`);
        expectEqual(work.isCompleted(), true, `handle ${i} is done`);
      }
    },
  },
  {
    number: 101,
    title: 'allReduce, reduce and reduceScatter are correct for every op, dtype and algorithm',
    worlds: [1, 2, 3, 5, 9, 17],
    inTabs: true,
    run: async (group, n) => {
      for (const dtype of DTYPES) {
        for (const op of opsOf(dtype)) {
          for (const count of n > 5 ? [n - 1] : [0, 1, n + 1, 301]) await reducesEverywhere(group, dtype, op, count);
        }
        // This size uses halving-doubling, which small tensors do not use.
        const large = Math.floor(BYTES_OF_ALGORITHMS[1]! / dtype.bytes);
        if (n > 8) await reducesEverywhere(group, dtype, opsOf(dtype).at(-1)!, large);
      }
    },
  },
  {
    number: 102,
    title: 'allReduce ends with the same bits on all ranks, for random and for special values',
    inTabs: true,
    worlds: [1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 32],
    run: async (group, n) => {
      const [small, middle, large] = BYTES_OF_ALGORITHMS;
      for (const bytes of [small!, ...(n > 8 ? [middle!] : [4100]), ...(n === 9 || n === 17 ? [large!] : [])]) {
        const rng = createRng(99 + group.rank);
        const random = Float32Array.from({ length: bytes / 4 }, () => (rng.next() - 0.5) * 2 ** rng.below(40));
        const odd = random.map((value, i) => ODD_VALUES[(i + group.rank) % ODD_VALUES.length] ?? value);
        for (const op of [ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX]) {
          for (const input of bytes === small ? [random, odd] : [random]) {
            const result = await group.allReduce(input.slice(), { op });
            const bits = new Uint32Array(result.buffer);
            // All NaNs are compared as equal, because the platform chooses their bits.
            result.forEach((value, i) => Number.isNaN(value) && (bits[i] = 0x7fc00000));
            const first = await group.broadcast(bits.slice(), 0);
            expectEqual(
              bits,
              first,
              `${input === odd ? 'odd' : 'random'} values, ${bytes} bytes, op ${op}: bits of rank 0`,
            );
          }
        }
      }
    },
  },
  {
    number: 103,
    title: 'sums and products of integers wrap around at the width of the dtype',
    worlds: [2, 3, 8],
    inTabs: true,
    run: async (group, n) => {
      for (const dtype of DTYPES.filter(({ bits }) => bits > 0)) {
        const largest = (1n << BigInt(dtype.bits - (dtype.isSigned ? 1 : 0))) - 1n;
        for (const value of [largest, dtype.isSigned ? -largest - 1n : largest - 5n, 3n]) {
          const tensor = () => dtype.of([value, value]);
          const sum = wrap(dtype, value * BigInt(n));
          const product = wrap(dtype, value ** BigInt(n));
          const where = `${dtype.name} ${value}`;
          expectEqual(await group.allReduce(tensor()), dtype.of([sum, sum]), `SUM of ${where}`);
          const multiplied = await group.allReduce(tensor(), { op: ReduceOp.PRODUCT });
          expectEqual(multiplied, dtype.of([product, product]), `PRODUCT of ${where}`);
        }
      }
    },
  },
  {
    number: 104,
    title: 'MIN and MAX return NaN if one rank has NaN, and MIN of 0 and -0 is -0',
    worlds: [2, 3, 5],
    inTabs: true,
    run: async (group, n) => {
      for (const dtype of DTYPES.filter(({ bits }) => bits === 0)) {
        for (let special = 0; special < n; special++) {
          const mine = (usual: number, odd: number) => dtype.of([group.rank === special ? odd : usual]);
          for (const op of [ReduceOp.MIN, ReduceOp.MAX]) {
            const options = { ...dtype.options, op };
            const [value] = valuesOf(dtype, await group.allReduce(mine(1, NaN), options));
            expectEqual(value, NaN, `op ${op}, ${dtype.name} NaN of rank ${special}`);
          }
          const least = await group.allReduce(mine(0, -0), { ...dtype.options, op: ReduceOp.MIN });
          const sign = dtype.name === 'float16' ? least[0] === 0x8000 : Object.is(least[0], -0);
          expectEqual(sign, true, `MIN of ${dtype.name} 0 and -0 is -0`);
        }
      }
    },
  },
];
