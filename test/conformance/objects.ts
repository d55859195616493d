/** Cases of collectives of JavaScript values. */
import { UsageError } from '../../src/util/errors.ts';
import type { ConformanceCase } from './case.ts';
import { expectEqual, expectRejection } from './expect.ts';
import { range } from './values.ts';

const cyclic: Record<string, unknown> = { name: 'cyclic' };
cyclic['self'] = cyclic;

/**
 * Returns every kind of value that can be sent. Values and their encoded sizes depend on `seed`, so
 * that they differ between ranks.
 */
function valuesOf(seed: number): unknown[] {
  return [
    undefined,
    null,
    true,
    seed,
    -0.5 - seed,
    NaN,
    -Infinity,
    2n ** 70n + BigInt(seed),
    '',
    'ä€😀\0\n'.repeat(seed + 1),
    [],
    [1, undefined, 3],
    {},
    { a: { b: [{ c: seed }] }, undefined, 'odd key "': 1 },
    new Map<unknown, unknown>([
      ['k', new Set([1, 'two', { three: 3 }])],
      [{ key: seed }, []],
    ]),
    new Set(range(seed)),
    new Date(1e12 + seed),
    Float32Array.of(seed, 1.5, NaN),
    Uint8Array.of(1, 2, 255),
    BigInt64Array.of(-1n),
    { numbers: range(300 * seed) },
    // This string needs more than one frame.
    'x'.repeat(70_000 + seed),
  ];
}

const UNSENDABLE: readonly unknown[] = [
  () => 1,
  Symbol('s'),
  { f: () => 1 },
  new (class Model {
    weight = 1;
  })(),
];

export const OBJECT_CASES: readonly ConformanceCase[] = [
  {
    number: 130,
    title: 'every object collective transfers values of every kind unchanged',
    worlds: [1, 2, 3, 5, 9],
    inTabs: true,
    run: async (group, n) => {
      const { rank } = group;
      const kinds = valuesOf(0).length;
      for (let kind = 0; kind < kinds; kind++) {
        const of = (seed: number) => valuesOf(seed)[kind];
        const all = range(n).map(of);
        const where = (op: string) => `${op} of value ${kind}`;
        expectEqual(await group.allGatherObject(of(rank)), all, where('allGatherObject'));
        const root = kind % n;
        const mine = rank === root;
        expectEqual(await group.broadcastObject(mine ? of(root) : 'ignored', root), of(root), where('broadcastObject'));
        expectEqual(await group.gatherObject(of(rank), root), mine ? all : null, where('gatherObject'));
        expectEqual(await group.scatterObjects(mine ? all : null, root), of(rank), where('scatterObjects'));
      }
    },
  },
  {
    number: 131,
    title: 'object collectives transfer cyclic and shared references as such',
    worlds: [1, 2, 3],
    inTabs: true,
    run: async (group) => {
      const shared = { x: 1 };
      const [received] = await group.allGatherObject({ cyclic, twice: [shared, shared] });
      const { self, name } = received!.cyclic as { self: unknown; name: string };
      expectEqual([self === received!.cyclic, name], [true, 'cyclic'], 'a value that contains itself');
      expectEqual(received!.twice[0] === received!.twice[1], true, 'one value twice');
    },
  },
  {
    number: 132,
    title: 'object collectives reject functions, symbols and class instances, and the group remains usable',
    worlds: [1, 2, 3],
    inTabs: true,
    run: async (group, n) => {
      for (const value of UNSENDABLE) {
        await expectRejection(group.allGatherObject(value), UsageError, 'cannot be sent', 'allGatherObject');
        await expectRejection(group.gatherObject(value, 0), UsageError, 'cannot be sent', 'gatherObject');
        if (group.rank === 0) {
          await expectRejection(group.broadcastObject(value, 0), UsageError, 'cannot be sent', 'broadcastObject');
          const values = range(n).map(() => value);
          await expectRejection(group.scatterObjects(values, 0), UsageError, 'cannot be sent', 'scatterObjects');
        }
      }
      expectEqual(await group.allGatherObject(group.rank), range(n), 'the group is usable');
    },
  },
  {
    number: 133,
    title: 'many object and tensor collectives in flight at the same time all return correct results',
    worlds: [2, 3, 5],
    inTabs: true,
    run: async (group, n) => {
      const works = range(40).flatMap((i): PromiseLike<unknown>[] => [
        group.allGatherObject('x'.repeat(i * 50) + group.rank),
        group.allReduce(Float32Array.of(i)),
        group.broadcastObject(group.rank === i % n ? { i } : undefined, i % n),
      ]);
      const results = await Promise.all(works);
      for (const i of range(40)) {
        expectEqual(
          results.slice(3 * i, 3 * i + 3),
          [range(n).map((rank) => 'x'.repeat(i * 50) + rank), Float32Array.of(i * n), { i }],
          `round ${i}`,
        );
      }
    },
  },
];
