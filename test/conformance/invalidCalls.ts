/** Cases of calls that are invalid on their rank. */
import type { ReduceOptions } from '../../src/collectives/options.ts';
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { ReduceOp } from '../../src/protocol/frame.ts';
import { UsageError } from '../../src/util/errors.ts';
import type { ConformanceCase } from './case.ts';
import { expectEqual, expectRejection, expectThrow } from './expect.ts';
import { one, range } from './values.ts';

/** An invalid call, and a part of its error message. */
type WrongCall = readonly [name: string, call: (group: ProcessGroup) => unknown, message: string];

function wrongCalls({ rank, worldSize: n }: ProcessGroup): WrongCall[] {
  const tensor = new Float32Array(n);
  const parts = range(n).map(() => one(1));
  const roots = [-1, n, 0.5, NaN].flatMap((root): WrongCall[] => [
    [`broadcast from ${root}`, (group) => group.broadcast(tensor, root), 'Invalid root rank'],
    [`reduce to ${root}`, (group) => group.reduce(tensor, root), 'Invalid root rank'],
    [`gather to ${root}`, (group) => group.gather(tensor, root), 'Invalid root rank'],
    [`scatter from ${root}`, (group) => group.scatter(tensor, root, null), 'Invalid root rank'],
    [`broadcastObject from ${root}`, (group) => group.broadcastObject(1, root), 'Invalid root rank'],
    [`gatherObject to ${root}`, (group) => group.gatherObject(1, root), 'Invalid root rank'],
    [`scatterObjects from ${root}`, (group) => group.scatterObjects(null, root), 'Invalid root rank'],
    [`broadcastCoalesced from ${root}`, (group) => group.broadcastCoalesced([tensor], root), 'Invalid root rank'],
  ]);
  const lists: WrongCall[] = [n - 1, n + 1, 0].flatMap((size): WrongCall[] => [
    [
      `scatter of ${size} parts`,
      (group) =>
        group.scatter(
          one(0),
          rank,
          range(size).map(() => one(1)),
        ),
      'Incorrect input list size',
    ],
    [
      `scatterObjects of ${size} values`,
      (group) => group.scatterObjects(range(size), rank),
      'Incorrect input list size',
    ],
  ]);
  const other = (rank + 1) % n;
  const notAlone: WrongCall[] = [
    [
      'scatter with parts on a rank that is not the source',
      (group) => group.scatter(one(0), other, parts),
      'Only rank',
    ],
    [
      'scatterObjects with values on a rank that is not the source',
      (group) => group.scatterObjects(range(n), other),
      'Only rank',
    ],
    ['reduceScatter into uneven parts', (group) => group.reduceScatter(new Float32Array(n + 1)), 'equal parts'],
    ['allToAll of uneven parts', (group) => group.allToAll(new Float32Array(n + 1)), 'equal parts'],
  ];
  const uneven = (size: number): Float32Array[] => range(n).map((r) => new Float32Array(r === n - 1 ? size : 1));
  const mixed = [one(1), Int32Array.of(1)] as unknown as Float32Array[];
  const ofInts = range(n).map(() => Int32Array.of(1)) as unknown as Float32Array[];
  const badOps: [ReduceOptions, string][] = [
    [{ op: ReduceOp.NONE }, 'Unknown reduce op'],
    [{ op: 77 as ReduceOp }, 'Unknown reduce op'],
    [{ op: ReduceOp.BAND }, 'Bitwise reductions need an integer dtype'],
    [{ op: ReduceOp.PREMUL_SUM }, 'PREMUL_SUM needs a factor'],
    [{ factor: 2 }, 'PREMUL_SUM needs a factor'],
  ];
  const reductions = badOps.flatMap(([options, message]): WrongCall[] => [
    [`allReduce ${JSON.stringify(options)}`, (group) => group.allReduce(tensor, options), message],
    [`reduce ${JSON.stringify(options)}`, (group) => group.reduce(tensor, 0, options), message],
    [`reduceScatter ${JSON.stringify(options)}`, (group) => group.reduceScatter(tensor, options), message],
    [`coalesced ${JSON.stringify(options)}`, (group) => group.allReduceCoalesced([tensor, tensor], options), message],
  ]);
  const ints = Int32Array.of(1);
  const calls: WrongCall[] = [
    ...roots,
    ...lists,
    ...(n > 1 ? notAlone : []),
    ...reductions,
    ['allReduceCoalesced of nothing', (group) => group.allReduceCoalesced([]), 'non-empty list of tensors'],
    ['broadcastCoalesced of nothing', (group) => group.broadcastCoalesced([], 0), 'non-empty list of tensors'],
    ['allGatherCoalesced of nothing', (group) => group.allGatherCoalesced([]), 'non-empty list of tensors'],
    ['allGatherCoalesced of two dtypes', (group) => group.allGatherCoalesced(mixed), 'of one dtype'],
    // In the next calls, a valid tensor comes before the invalid one and must not be sent.
    [
      'allReduceCoalesced with 16-bit words',
      (group) => group.allReduceCoalesced([one(1), new Uint16Array(1)]),
      'can only hold float16 bits',
    ],
    [
      'allReduceCoalesced with AVG of integers',
      (group) => group.allReduceCoalesced([one(1), ints], { op: ReduceOp.AVG }),
      'would round int32',
    ],
    [
      'broadcastCoalesced with an array',
      (group) => group.broadcastCoalesced([one(1), [1] as unknown as Float32Array], 0),
      'not Array',
    ],
    ['allReduce with AVG of integers', (group) => group.allReduce(ints, { op: ReduceOp.AVG }), 'would round int32'],
    ['scatter with a larger part', (group) => group.scatter(one(0), rank, uneven(2)), 'but every rank receives'],
    ['scatter with an empty part', (group) => group.scatter(one(0), rank, uneven(0)), 'but every rank receives'],
    ['scatter of another dtype', (group) => group.scatter(one(0), rank, ofInts), 'but every rank receives'],
    ['allGather with too few sizes', (group) => group.allGather(one(1), { sizes: range(n - 1) }), 'whole numbers'],
    ['allGather with another own size', (group) => group.allGather(one(1), { sizes: range(n).map(() => 2) }), 'sizes['],
    [
      'allGather with half a size',
      (group) => group.allGather(one(1), { sizes: range(n).map(() => 0.5) }),
      'whole numbers',
    ],
    [
      'reduceScatter with sizes that add up to another length',
      (group) => group.reduceScatter(tensor, { sizes: range(n).map(() => 2) }),
      'add up to',
    ],
    [
      'allToAll with splits that add up to another length',
      (group) => group.allToAll(tensor, { inputSplits: range(n).map(() => 2) }),
      'add up to',
    ],
    [
      'allToAll with different splits for itself',
      (group) => group.allToAll(tensor, { outputSplits: range(n).map(() => 2) }),
      'sends to itself',
    ],
    ['a plain array', (group) => group.allReduce([1, 2] as unknown as Float32Array), 'not Array. Convert the value'],
    ['no tensor', (group) => group.broadcast(null as unknown as Float32Array, 0), 'not Null'],
    [
      'clamped bytes',
      (group) => group.allGather(new Uint8ClampedArray(1) as unknown as Uint8Array),
      'not Uint8Clamped',
    ],
    ['float16 as Int32Array', (group) => group.allReduce(ints, { dtype: 'float16' }), 'must be bits in a Uint16Array'],
    ['a bucket beyond the largest number', (group) => group.allReduce(one(1), { bucket: 65_536 }), 'A bucket is'],
  ];
  return calls;
}

/** Expects that a call throws a UsageError, or returns a promise that rejects with a UsageError. */
async function expectUsageError(name: string, call: () => unknown, message: string): Promise<void> {
  let result: unknown;
  try {
    result = call();
  } catch (error) {
    expectThrow(
      () => {
        throw error;
      },
      UsageError,
      message,
      name,
    );
    return;
  }
  await expectRejection(Promise.resolve(result), UsageError, message, name);
}

export const INVALID_CALL_CASES: readonly ConformanceCase[] = [
  {
    number: 18,
    title: 'an invalid call fails immediately, and the group remains usable',
    worlds: [1, 2, 3, 4],
    inTabs: true,
    run: async (group, n) => {
      for (const [name, call, message] of wrongCalls(group)) await expectUsageError(name, () => call(group), message);
      expectEqual(await group.allReduce(one(1)), one(n), 'the group is usable');
      // Now only one rank makes invalid calls. Its later calls must still match those of the other
      // ranks.
      if (group.rank === 0) {
        for (const [name, call, message] of wrongCalls(group)) await expectUsageError(name, () => call(group), message);
      }
      expectEqual(await group.allReduce(one(2)), one(2 * n), 'the group is usable after wrong calls of rank 0');
      expectEqual(await group.allGatherObject(group.rank), range(n), 'also for objects');
    },
  },
];
