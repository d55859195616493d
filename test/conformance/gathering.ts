/**
 * Cases of collectives that move parts of tensors: broadcast, gather, scatter, allGather,
 * reduceScatter, allToAll.
 */
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { ReduceOp } from '../../src/protocol/frame.ts';
import { GLOO_WORLDS } from './allReduce.ts';
import type { ConformanceCase } from './case.ts';
import { DTYPES, valuesOf } from './dtypes.ts';
import { expectEqual, expectThat } from './expect.ts';
import { empty, floats, range, sum } from './values.ts';

const NEW_WORLDS = [1, 2, 3, 4, 7];
/** Worlds of more than 8 ranks use other algorithms, so fewer counts are enough there. */
const countsOf = (n: number): number[] => (n > 8 ? [0, 1, 100] : [0, 1, 10, 100, 1000, 10_000]);

/** Returns sizes of parts that differ. Some parts are empty. */
function unevenSizes(n: number): number[] {
  return range(n).map((rank) => (rank * rank) % 5);
}

/** Returns the elements of part `rank`. */
function partOf(whole: Float32Array, sizes: readonly number[], rank: number): Float32Array {
  const start = sum(sizes.slice(0, rank));
  return whole.slice(start, start + sizes[rank]!);
}

/** Runs `op` and returns the bytes that this rank sent for it. */
async function sentBy(group: ProcessGroup, op: () => PromiseLike<unknown>): Promise<number> {
  await group.barrier();
  const before = group.bytesSent;
  await op();
  return group.bytesSent - before;
}

export const GATHERING_CASES: readonly ConformanceCase[] = [
  {
    number: 19,
    title: 'every collective accepts empty tensors and returns empty results',
    worlds: [1, 2, 3, 5],
    inTabs: true,
    run: async (group, n) => {
      for (let root = 0; root < n; root++) {
        expectEqual(await group.broadcast(empty(), root), empty(), `broadcast from ${root}`);
        expectEqual((await group.reduce(empty(), root)).length, 0, `reduce to ${root}`);
        const isRoot = group.rank === root;
        const all = range(n).map(empty);
        expectEqual(await group.gather(empty(), root), isRoot ? all : null, `gather to ${root}`);
        expectEqual(await group.scatter(empty(), root, isRoot ? all : null), empty(), `scatter from ${root}`);
      }
      expectEqual(await group.allReduce(empty()), empty(), 'allReduce');
      expectEqual(await group.allGather(empty()), range(n).map(empty), 'allGather');
      expectEqual(await group.reduceScatter(empty()), empty(), 'reduceScatter');
      expectEqual(await group.allToAll(empty()), empty(), 'allToAll');
      expectEqual(await group.allReduceCoalesced([empty(), empty()]), [empty(), empty()], 'allReduceCoalesced');
    },
  },
  {
    number: 23,
    title:
      'reduceScatter is correct if only the first ranks have full parts, and later ranks have a smaller or an empty part',
    inTabs: true,
    worlds: GLOO_WORLDS,
    run: async (group, n) => {
      for (const count of [4, 100, 1000, 10_000]) {
        const size = Math.ceil(count / n);
        const sizes = range(n).map((rank) => Math.max(0, Math.min(size, count - rank * size)));
        const part = await group.reduceScatter(
          floats(count, () => group.rank),
          { sizes },
        );
        expectEqual(
          part,
          floats(sizes[group.rank]!, () => (n * (n - 1)) / 2),
          `count ${count}`,
        );
      }
    },
  },
  {
    number: 25,
    title: 'allGather returns every part on every rank',
    worlds: [1, 2, 4, 7],
    inTabs: true,
    run: async (group, n) => {
      for (const count of [0, 4, 100, 1000, 10_000]) {
        const parts = await group.allGather(floats(count, (k) => group.rank + k * n));
        expectEqual(
          parts,
          range(n).map((j) => floats(count, (k) => j + k * n)),
          `count ${count}`,
        );
      }
    },
  },
  {
    number: 29,
    title: 'broadcast copies the tensor of every root in turn to all ranks',
    worlds: [...NEW_WORLDS, 9, 16],
    inTabs: true,
    run: async (group, n) => {
      for (let root = 0; root < n; root++) {
        for (const count of countsOf(n)) {
          for (const algorithm of [undefined, 'direct'] as const) {
            const mine = floats(count, (j) => (group.rank === root ? j * n + root : -1));
            const result = await group.broadcast(mine, root, { ...(algorithm && { algorithm }) });
            expectEqual(
              result,
              floats(count, (j) => j * n + root),
              `count ${count}, root ${root} ${algorithm ?? ''}`,
            );
            expectThat(result === mine, 'broadcast works in place');
          }
        }
      }
    },
  },
  {
    number: 29,
    title: 'scatter gives each rank its part of the tensors of every root in turn',
    worlds: [...NEW_WORLDS, 9],
    inTabs: true,
    run: async (group, n) => {
      for (let root = 0; root < n; root++) {
        for (const count of countsOf(n)) {
          const parts = range(n).map((rank) => floats(count, (j) => j * n ** 2 + root * n + rank));
          const expected = parts[group.rank]!.slice();
          const isRoot = group.rank === root;
          // In place means that the root's own part is the tensor that receives the result.
          for (const inPlace of isRoot ? [true, false] : [false, false]) {
            const tensor = inPlace ? parts[root]! : floats(count, () => -1);
            const result = await group.scatter(tensor, root, isRoot ? parts : null);
            expectEqual(result, expected, `count ${count}, root ${root}`);
          }
        }
      }
    },
  },
  {
    number: 29,
    title: 'gather returns the tensors of all ranks on every root in turn',
    worlds: [...NEW_WORLDS, 9],
    inTabs: true,
    run: async (group, n) => {
      for (let root = 0; root < n; root++) {
        for (const count of countsOf(n)) {
          const mine = floats(count, (j) => j * n ** 2 + root * n + group.rank);
          const expected = range(n).map((rank) => floats(count, (j) => j * n ** 2 + root * n + rank));
          const parts = await group.gather(mine, root);
          expectEqual(parts, group.rank === root ? expected : null, `count ${count}, root ${root}`);
          expectEqual(mine, expected[group.rank], `count ${count}, root ${root}: input`);
        }
      }
    },
  },
  {
    number: 29,
    title: 'reduce returns the sum on every root in turn',
    worlds: [...NEW_WORLDS, 9, 16],
    inTabs: true,
    run: async (group, n) => {
      for (let root = 0; root < n; root++) {
        for (const count of countsOf(n)) {
          for (const algorithm of [undefined, 'direct'] as const) {
            const mine = floats(count, (j) => j * n + group.rank);
            const result = await group.reduce(mine, root, { ...(algorithm && { algorithm }) });
            if (group.rank !== root) continue;
            const expected = floats(count, (j) => j * n ** 2 + (n * (n - 1)) / 2);
            expectEqual(result, expected, `count ${count}, root ${root} ${algorithm ?? ''}`);
          }
        }
      }
    },
  },
  {
    number: 110,
    title: 'allGather and gather return parts of different sizes, of every dtype',
    worlds: [1, 2, 3, 4, 7, 9, 17],
    inTabs: true,
    run: async (group, n) => {
      for (const factor of [1, 1000]) {
        const sizes = unevenSizes(n).map((size) => size * factor);
        for (const dtype of DTYPES) {
          const parts = sizes.map((size, rank) => dtype.of(range(size).map((i) => (rank + i) % 100)));
          const mine = parts[group.rank]!;
          const where = `sizes ${sizes.join(', ')} of ${dtype.name}`;
          expectEqual(await group.allGather(mine, { ...dtype.options, sizes }), parts, `allGather, ${where}`);
          const root = n - 1;
          const gathered = await group.gather(mine, root, { ...dtype.options, sizes });
          expectEqual(gathered, group.rank === root ? parts : null, `gather, ${where}`);
        }
      }
    },
  },
  {
    number: 111,
    title: 'reduceScatter returns reduced parts of different sizes, and does not change the input',
    worlds: [1, 2, 3, 4, 7, 9],
    inTabs: true,
    run: async (group, n) => {
      for (const factor of [1, 3000]) {
        const sizes = unevenSizes(n).map((size) => size * factor);
        const input = () => floats(sum(sizes), (i) => (i % 50) + group.rank);
        for (const [op, expected] of [
          [ReduceOp.SUM, floats(sum(sizes), (i) => n * (i % 50) + (n * (n - 1)) / 2)],
          [ReduceOp.AVG, floats(sum(sizes), (i) => (n * (i % 50) + (n * (n - 1)) / 2) / n)],
          [ReduceOp.MAX, floats(sum(sizes), (i) => (i % 50) + n - 1)],
        ] as const) {
          const tensor = input();
          const part = await group.reduceScatter(tensor, { op, sizes });
          expectEqual(part, partOf(expected, sizes, group.rank), `op ${op}, sizes ${sizes.join(', ')}`);
          expectEqual(tensor, input(), `op ${op}, sizes ${sizes.join(', ')}: input`);
        }
      }
    },
  },
  {
    number: 112,
    title: 'allToAll with equal parts transposes the table of parts',
    worlds: [1, 2, 3, 4, 7, 9],
    inTabs: true,
    run: async (group, n) => {
      for (const count of [0, 1, 3, 20_000]) {
        const tensor = floats(n * count, (i) => group.rank * n + Math.floor(i / count));
        const result = await group.allToAll(tensor);
        expectEqual(
          result,
          floats(n * count, (i) => Math.floor(i / count) * n + group.rank),
          `${count} elements per part`,
        );
      }
    },
  },
  {
    number: 113,
    title: 'allToAll with splits of different sizes, also empty splits, returns the right parts',
    worlds: [1, 2, 3, 4, 5, 7],
    inTabs: true,
    run: async (group, n) => {
      const tables: Record<string, (from: number, to: number) => number> = {
        'different everywhere': (from, to) => (from * 3 + to * 2) % 7,
        'nothing to oneself': (from, to) => (from === to ? 0 : from + 1),
        'all to rank 0': (from, to) => (to === 0 ? from + 1 : 0),
        'all from the last rank': (from, to) => (from === n - 1 ? to + 1 : 0),
        'nothing at all': () => 0,
        'large parts': (from, to) => 20_000 * ((from + to) % 3),
        'equal parts': () => 2,
      };
      for (const [name, sizeOf] of Object.entries(tables)) {
        const { rank } = group;
        const inputSplits = range(n).map((to) => sizeOf(rank, to));
        const outputSplits = range(n).map((from) => sizeOf(from, rank));
        const parts = inputSplits.flatMap((size, to) => range(size).map((i) => rank * 64 + to * 8 + (i % 8)));
        const expected = outputSplits.flatMap((size, from) => range(size).map((i) => from * 64 + rank * 8 + (i % 8)));
        const result = await group.allToAll(Float32Array.from(parts), { inputSplits, outputSplits });
        expectEqual(result, Float32Array.from(expected), name);
      }
      // A rank whose splits are equal may omit them.
      const even =
        group.rank % 2 === 0 ? { inputSplits: range(n).map(() => 1), outputSplits: range(n).map(() => 1) } : {};
      const mixed = await group.allToAll(
        floats(n, (to) => group.rank * n + to),
        even,
      );
      expectEqual(
        mixed,
        floats(n, (from) => from * n + group.rank),
        'splits on even ranks only',
      );
    },
  },
  {
    number: 114,
    title: 'a collective on a view of a larger tensor does not change elements outside the view',
    worlds: [1, 2, 3, 9],
    inTabs: true,
    run: async (group, n) => {
      for (const dtype of DTYPES) {
        const large = dtype.of(Array.from({ length: 3 * n }, () => 1));
        const tensor = large.subarray(n, 2 * n);
        const ops: Record<string, () => PromiseLike<unknown>> = {
          allReduce: () => group.allReduce(tensor, dtype.options),
          reduce: () => group.reduce(tensor, 0, dtype.options),
          broadcast: () => group.broadcast(tensor, n - 1, dtype.options),
          allGather: () => group.allGather(tensor, dtype.options),
          gather: () => group.gather(tensor, 0, dtype.options),
          scatter: () => group.scatter(tensor, 0, group.rank === 0 ? range(n).map(() => tensor) : null, dtype.options),
          reduceScatter: () => group.reduceScatter(tensor, dtype.options),
          allToAll: () => group.allToAll(tensor, dtype.options),
          coalesced: () => group.allReduceCoalesced([tensor, tensor.slice()], dtype.options),
        };
        for (const [name, op] of Object.entries(ops)) {
          await op();
          const beside = [...valuesOf(dtype, large).slice(0, n), ...valuesOf(dtype, large).slice(2 * n)].map(Number);
          expectEqual(new Set(beside), new Set([1]), `${name} of ${dtype.name}: elements outside the tensor`);
        }
      }
    },
  },
  {
    number: 115,
    title: 'in each collective, every rank sends the bytes that theory predicts, plus at most 1 % for framing',
    worlds: [2, 3, 4, 7, 8],
    inTabs: true,
    run: async (group, n) => {
      const bytes = 840 * 4 * 250;
      const tensor = () => new Float32Array(bytes / 4);
      const share = (n - 1) / n;
      const last = n - 1;
      for (const [name, expected, op] of [
        ['allReduce', 2 * share, () => group.allReduce(tensor())],
        ['reduceScatter', share, () => group.reduceScatter(tensor())],
        ['allGather', share, () => group.allGather(new Float32Array(bytes / 4 / n))],
        ['allToAll', share, () => group.allToAll(tensor())],
        ['broadcast', group.rank === last ? 0 : 1, () => group.broadcast(tensor(), 0)],
        ['reduce', group.rank === last ? 0 : 1, () => group.reduce(tensor(), last)],
      ] as const) {
        const sent = (await sentBy(group, op)) / bytes;
        // A rank that sends no data still sends a small frame that announces its call.
        const isRight = sent >= expected && sent <= 1.01 * expected + 0.001;
        expectThat(isRight, `${name} sends ${sent} times the tensor's bytes, expected ${expected}`);
      }
    },
  },
];
