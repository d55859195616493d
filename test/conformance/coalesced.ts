/** Cases of coalesced collectives, which handle several tensors in one call. */
import { ReduceOp } from '../../src/protocol/frame.ts';
import type { ConformanceCase } from './case.ts';
import { DTYPES } from './dtypes.ts';
import { expectEqual } from './expect.ts';
import { one, range, sumOfRanks } from './values.ts';

const factorial = (k: number): number => range(1, k).reduce((a, b) => a * b, 1);

export const COALESCED_CASES: readonly ConformanceCase[] = [
  {
    number: 14,
    title: 'allReduceCoalesced returns the reductions of two tensors and stores them in place',
    worlds: range(1, 8),
    inTabs: true,
    run: async (group, n) => {
      const { rank: r } = group;
      for (const [op, inputs, expected] of [
        [ReduceOp.SUM, [r + 1, (r + 1) ** 2], [(n * (n + 1)) / 2, (n * (n + 1) * (2 * n + 1)) / 6]],
        [ReduceOp.PRODUCT, [r + 1, r + 2], [factorial(n), factorial(n + 1)]],
        [ReduceOp.MIN, [r, r + 1], [0, 1]],
        [ReduceOp.MAX, [r + 1, r + 2], [n, n + 1]],
      ] as const) {
        const tensors = inputs.map(one);
        expectEqual(await group.allReduceCoalesced(tensors, { op }), expected.map(one), `op ${op}`);
        expectEqual(tensors, expected.map(one), `op ${op}, in place`);
      }
    },
  },
  {
    number: 46,
    title: 'broadcastCoalesced copies tensors of many dtypes from every root in turn',
    worlds: [2, 3, 4],
    inTabs: true,
    // The case in torch has a buffer of 256 bytes.
    options: { segmentElements: 64 },
    run: async (group, n) => {
      const chunks = range(5).map((chunk) => range(12).map((i) => chunk * 12 + i));
      // Six dtypes, including int64 and float64.
      const dtypes = DTYPES.filter(({ name }) => name !== 'float16').slice(0, 6);
      const values = () => chunks.flatMap((chunk) => dtypes.map((dtype) => dtype.of(chunk)));
      for (let root = 0; root < n; root++) {
        const tensors = group.rank === root ? values() : values().map((tensor) => tensor.fill(0 as never));
        const result = await group.broadcastCoalesced(tensors, root);
        expectEqual(result, values(), `root ${root}`);
        expectEqual(tensors, values(), `root ${root}, in place`);
      }
    },
  },
  {
    number: 120,
    title: 'coalesced collectives return tensors in the given order with their sizes and dtypes, also empty tensors',
    worlds: [1, 2, 3, 9],
    inTabs: true,
    run: async (group, n) => {
      const { rank } = group;
      const halves = DTYPES.find(({ name }) => name === 'float16')!;
      const mixed = (value: number) => [
        Float32Array.of(value, value),
        Int32Array.of(value),
        new Float32Array(0),
        halves.of([value]) as Uint16Array,
        BigInt64Array.of(BigInt(value)),
        Int32Array.of(value, value, value),
      ];
      const total = sumOfRanks(n);
      expectEqual(await group.allReduceCoalesced(mixed(rank), halves.options), mixed(total), 'allReduceCoalesced');
      const fromLast = await group.broadcastCoalesced(mixed(rank), n - 1, halves.options);
      expectEqual(fromLast, mixed(n - 1), 'broadcastCoalesced');
      const lists = await group.allGatherCoalesced([Int8Array.of(rank), new Int8Array(0), Int8Array.of(rank, 7)]);
      expectEqual(
        lists,
        range(n).map((j) => [Int8Array.of(j), new Int8Array(0), Int8Array.of(j, 7)]),
        'allGatherCoalesced',
      );
    },
  },
  {
    number: 121,
    title: 'coalesced and other collectives in flight at the same time all return correct results',
    worlds: [2, 3],
    inTabs: true,
    run: async (group, n) => {
      const total = sumOfRanks(n);
      const [before, lists, coalesced, object, after] = await Promise.all([
        group.allReduce(one(group.rank)),
        group.allGatherCoalesced([one(group.rank)]),
        group.allReduceCoalesced([one(group.rank), Int32Array.of(group.rank)]),
        group.allGatherObject(group.rank),
        group.allReduce(one(group.rank + 1)),
      ]);
      expectEqual(before, one(total), 'before');
      expectEqual(
        lists,
        range(n).map((rank) => [one(rank)]),
        'allGatherCoalesced',
      );
      expectEqual(coalesced, [one(total), Int32Array.of(total)], 'allReduceCoalesced');
      expectEqual(object, range(n), 'allGatherObject');
      expectEqual(after, one(total + n), 'after');
    },
  },
];
