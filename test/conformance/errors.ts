/** Cases of calls that differ between ranks, and of groups that have failed. */
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { ReduceOp } from '../../src/protocol/frame.ts';
import { MismatchError, PeerGoneError } from '../../src/util/errors.ts';
import type { ConformanceCase } from './case.ts';
import { expectRejection, expectThat } from './expect.ts';
import { one, range } from './values.ts';

/**
 * A call on all ranks. One rank, for which `isOdd` is true, calls a variant, which `what` names.
 */
type Variant = readonly [what: string, call: (group: ProcessGroup, isOdd: boolean) => PromiseLike<unknown>];

const tensorOf = (count: number, isInt: boolean): Float32Array | Int32Array =>
  isInt ? new Int32Array(count) : new Float32Array(count);

function scatterFrom(group: ProcessGroup, src: number, count: number, isInt = false): PromiseLike<unknown> {
  const parts = range(group.worldSize).map(() => tensorOf(count, isInt) as Float32Array);
  return group.scatter(tensorOf(count, isInt) as Float32Array, src, group.rank === src ? parts : null);
}

/** Returns the sizes 1, 2, .. n, or the same sizes in reverse order, so that the sum is equal. */
function sizesOf(n: number, isOdd: boolean): number[] {
  return isOdd ? range(1, n).reverse() : range(1, n);
}

function unevenPart(group: ProcessGroup, isOdd: boolean): { tensor: Float32Array; sizes: number[] } {
  const sizes = sizesOf(group.worldSize, isOdd);
  return { tensor: new Float32Array(sizes[group.rank]!), sizes };
}

/**
 * Returns splits of two elements per part. If `isOdd`, the part for the first rank has one element
 * more, and the part for the last rank one less.
 */
function splitsOf({ rank, worldSize: n }: ProcessGroup, isOdd: boolean) {
  const inputSplits = range(n).map((to) => 2 + (isOdd ? Number(to === 0) - Number(to === n - 1) : 0));
  return { inputSplits, outputSplits: range(n).map((from) => (from === rank ? inputSplits[rank]! : 2)) };
}

const VARIANTS: Record<string, readonly Variant[]> = {
  allReduce: [
    ['another dtype', (group, isOdd) => group.allReduce(tensorOf(8, isOdd))],
    ['another count', (group, isOdd) => group.allReduce(new Float32Array(isOdd ? 9 : 8))],
    ['a large count', (group, isOdd) => group.allReduce(new Float32Array(isOdd ? 200_000 : 8))],
    ['a small count', (group, isOdd) => group.allReduce(new Float32Array(isOdd ? 8 : 200_000))],
    ['nothing', (group, isOdd) => group.allReduce(new Float32Array(isOdd ? 0 : 8))],
    ['something', (group, isOdd) => group.allReduce(new Float32Array(isOdd ? 1 : 0))],
    ['another op', (group, isOdd) => group.allReduce(one(1), { op: isOdd ? ReduceOp.MAX : ReduceOp.SUM })],
    ['a barrier', (group, isOdd) => (isOdd ? group.barrier() : group.allReduce(one(1)))],
    ['a reduce', (group, isOdd) => (isOdd ? group.reduce(one(1), 0) : group.allReduce(one(1)))],
  ],
  reduce: [
    ['another dtype', (group, isOdd) => group.reduce(tensorOf(8, isOdd), 0)],
    ['another count', (group, isOdd) => group.reduce(new Float32Array(isOdd ? 9 : 8), 0)],
    ['nothing', (group, isOdd) => group.reduce(new Float32Array(isOdd ? 0 : 8), 0)],
    ['another op', (group, isOdd) => group.reduce(one(1), 0, { op: isOdd ? ReduceOp.MIN : ReduceOp.SUM })],
    ['another root', (group, isOdd) => group.reduce(one(1), isOdd ? 1 : 0)],
    ['another algorithm', (group, isOdd) => group.reduce(one(1), 0, isOdd ? { algorithm: 'direct' } : {})],
    ['a gather', (group, isOdd) => (isOdd ? group.gather(one(1), 0) : group.reduce(one(1), 0))],
  ],
  broadcast: [
    ['another dtype', (group, isOdd) => group.broadcast(tensorOf(8, isOdd), 0)],
    ['another count', (group, isOdd) => group.broadcast(new Float32Array(isOdd ? 9 : 8), 0)],
    ['a large count', (group, isOdd) => group.broadcast(new Float32Array(isOdd ? 200_000 : 8), 0)],
    ['nothing', (group, isOdd) => group.broadcast(new Float32Array(isOdd ? 0 : 8), 0)],
    ['another root', (group, isOdd) => group.broadcast(one(1), isOdd ? 1 : 0)],
    ['a scatter', (group, isOdd) => (isOdd ? scatterFrom(group, 0, 1) : group.broadcast(one(1), 0))],
  ],
  allGather: [
    ['another dtype', (group, isOdd) => group.allGather(tensorOf(8, isOdd))],
    ['another count', (group, isOdd) => group.allGather(new Float32Array(isOdd ? 9 : 8))],
    ['nothing', (group, isOdd) => group.allGather(new Float32Array(isOdd ? 0 : 8))],
    [
      'other sizes of the same sum',
      (group, isOdd) => {
        const { tensor, sizes } = unevenPart(group, isOdd);
        return group.allGather(tensor, { sizes });
      },
    ],
    ['a gather', (group, isOdd) => (isOdd ? group.gather(one(1), 0) : group.allGather(one(1)))],
  ],
  gather: [
    ['another dtype', (group, isOdd) => group.gather(tensorOf(8, isOdd), 0)],
    ['another count', (group, isOdd) => group.gather(new Float32Array(isOdd ? 9 : 8), 0)],
    ['another root', (group, isOdd) => group.gather(one(1), isOdd ? 1 : 0)],
    [
      'other sizes of the same sum',
      (group, isOdd) => {
        const { tensor, sizes } = unevenPart(group, isOdd);
        return group.gather(tensor, 0, { sizes });
      },
    ],
    ['a scatter', (group, isOdd) => (isOdd ? scatterFrom(group, 0, 1) : group.gather(one(1), 0))],
  ],
  scatter: [
    ['another dtype', (group, isOdd) => scatterFrom(group, 0, 8, isOdd)],
    ['another count', (group, isOdd) => scatterFrom(group, 0, isOdd ? 9 : 8)],
    ['another root', (group, isOdd) => scatterFrom(group, isOdd ? 1 : 0, 8)],
    ['a broadcast', (group, isOdd) => (isOdd ? group.broadcast(one(1), 0) : scatterFrom(group, 0, 1))],
  ],
  reduceScatter: [
    ['another dtype', (group, isOdd) => group.reduceScatter(tensorOf(2 * group.worldSize, isOdd))],
    ['another count', (group, isOdd) => group.reduceScatter(new Float32Array((isOdd ? 3 : 2) * group.worldSize))],
    [
      'another op',
      (group, isOdd) =>
        group.reduceScatter(new Float32Array(group.worldSize), { op: isOdd ? ReduceOp.AVG : ReduceOp.SUM }),
    ],
    [
      'other sizes of the same sum',
      (group, isOdd) => {
        const sizes = sizesOf(group.worldSize, isOdd);
        return group.reduceScatter(new Float32Array(sizes.reduce((a, b) => a + b)), { sizes });
      },
    ],
    [
      'an allReduce',
      (group, isOdd) => {
        const tensor = new Float32Array(group.worldSize);
        return isOdd ? group.allReduce(tensor) : group.reduceScatter(tensor);
      },
    ],
  ],
  allToAll: [
    ['another dtype', (group, isOdd) => group.allToAll(tensorOf(2 * group.worldSize, isOdd))],
    ['another count', (group, isOdd) => group.allToAll(new Float32Array((isOdd ? 3 : 2) * group.worldSize))],
    ['nothing', (group, isOdd) => group.allToAll(new Float32Array(isOdd ? 0 : group.worldSize))],
    ['other splits', (group, isOdd) => group.allToAll(new Float32Array(2 * group.worldSize), splitsOf(group, isOdd))],
    [
      'an allGather',
      (group, isOdd) => (isOdd ? group.allGather(one(1)) : group.allToAll(new Float32Array(group.worldSize))),
    ],
  ],
  barrier: [
    ['an allReduce of a byte', (group, isOdd) => (isOdd ? group.allReduce(new Uint8Array(1)) : group.barrier())],
    ['a broadcast', (group, isOdd) => (isOdd ? group.broadcast(one(1), 0) : group.barrier())],
    ['an empty allGather', (group, isOdd) => (isOdd ? group.allGather(new Float32Array(0)) : group.barrier())],
  ],
  'several at once': [
    [
      'the reverse order',
      (group, isOdd) => {
        const calls = [() => group.broadcast(one(1), 0), () => group.allReduce(one(1))];
        return Promise.all((isOdd ? calls.toReversed() : calls).map((call) => call()));
      },
    ],
    [
      'one fewer',
      (group, isOdd) =>
        Promise.all([...(isOdd ? [] : [group.allReduce(one(1))]), group.allReduce(one(1)), group.barrier()]),
    ],
    [
      'a different list of tensors',
      (group, isOdd) => group.allReduceCoalesced([one(1), isOdd ? Int32Array.of(1) : Float64Array.of(1)]),
    ],
  ],
  objects: [
    ['another root of a broadcastObject', (group, isOdd) => group.broadcastObject('value', isOdd ? 1 : 0)],
    ['a gatherObject', (group, isOdd) => (isOdd ? group.gatherObject('value', 0) : group.allGatherObject('value'))],
    ['another root of a gatherObject', (group, isOdd) => group.gatherObject('value', isOdd ? 1 : 0)],
  ],
};

/**
 * Timeout of a group: long enough for any case on a busy machine, and short enough if a case hangs.
 */
const HANG_MS = 5000;

export const ERROR_CASES: readonly ConformanceCase[] = [
  ...Object.entries(VARIANTS).map(([collective, variants]): ConformanceCase => ({
    number: 20,
    title: `a call of ${collective} that differs on one rank fails on every rank`,
    worlds: [2, 3, 4, 5],
    inTabs: true,
    needsWorld: true,
    run: async (world, n) => {
      for (const [what, call] of variants) {
        for (const odd of range(n)) {
          const group = await world.newGroup(range(n), { timeoutMs: HANG_MS });
          const where = `${collective}, rank ${odd} of ${n} calls ${what}`;
          const error = await expectRejection(call(group, world.rank === odd), MismatchError, 'Ranks disagree', where);
          const { message } = error;
          expectThat(new RegExp(`Rank ${odd} called `).test(message), `${where}: the message names it: ${message}`);
          const calls = new Set(Array.from(message.matchAll(/called (\w+\([^)]*\))/g), ([, signature]) => signature));
          expectThat(calls.size >= 2, `${where}: the message names the calls: ${message}`);
        }
      }
    },
  })),
  {
    number: 20,
    title: 'a call that differs on every rank fails on every rank',
    worlds: [2, 3, 4, 5],
    inTabs: true,
    needsWorld: true,
    run: async (world, n) => {
      const calls: [string, (group: ProcessGroup) => PromiseLike<unknown>][] = [
        ...[1, 2, 3].map((dimensions): [string, (group: ProcessGroup) => PromiseLike<unknown>] => [
          `counts (17 + rank)^${dimensions}`,
          (group) => group.allReduce(new Float32Array((17 + group.rank) ** dimensions)),
        ]),
        ['float32 on odd ranks', (group) => group.allReduce(tensorOf(17, group.rank % 2 === 0))],
        ['roots', (group) => group.broadcast(one(1), group.rank)],
      ];
      for (const [what, call] of calls) {
        const group = await world.newGroup(range(n), { timeoutMs: HANG_MS });
        await expectRejection(call(group), MismatchError, 'Ranks disagree', `${what} in a world of ${n}`);
      }
    },
  },
  {
    number: 20,
    title: 'a call that differs on one rank fails on every rank of a larger world with other algorithms',
    worlds: [9, 16, 17],
    needsWorld: true,
    run: async (world, n) => {
      const counts = [
        [10, 12_000],
        [12_000, 80_000],
        [80_000, 10],
        [0, 10],
      ] as const;
      for (const [usual, other] of counts) {
        for (const odd of [1, n - 1]) {
          for (const [name, call] of [
            ['allReduce', (group, count) => group.allReduce(new Float32Array(count))],
            ['broadcast', (group, count) => group.broadcast(new Float32Array(count), 1)],
            ['reduce', (group, count) => group.reduce(new Float32Array(count), 1)],
            ['allGather', (group, count) => group.allGather(new Float32Array(count / 10))],
          ] as [string, (group: ProcessGroup, count: number) => PromiseLike<unknown>][]) {
            const group = await world.newGroup(range(n), { timeoutMs: HANG_MS });
            const where = `${name} of ${usual}, rank ${odd} of ${n} has ${other}`;
            const work = call(group, world.rank === odd ? other : usual);
            const { message } = await expectRejection(work, MismatchError, 'Ranks disagree', where);
            expectThat(message.includes(`Rank ${odd} called`), `${where}: the message names it: ${message}`);
          }
        }
      }
    },
  },
  {
    number: 160,
    title: 'after a failure of the group, every call is immediately rejected with the error of this failure',
    worlds: [1, 2, 3],
    inTabs: true,
    run: async (group, n) => {
      const reason = 'the program has stopped';
      if (group.rank === 0) group.abort(new MismatchError(reason));
      else await expectRejection(group.barrier(), MismatchError, reason, 'an op in flight');
      const calls: Record<string, () => PromiseLike<unknown>> = {
        allReduce: () => group.allReduce(one(1)),
        barrier: () => group.barrier(),
        monitoredBarrier: () => group.monitoredBarrier(),
        allReduceCoalesced: () => group.allReduceCoalesced([one(1), Int32Array.of(1)]),
        allGatherObject: () => group.allGatherObject(1),
        ...(n > 1 && {
          isend: () => group.isend(one(1), (group.rank + 1) % n),
          irecv: () => group.irecv(one(1), (group.rank + 1) % n),
        }),
      };
      for (const [name, call] of Object.entries(calls)) await expectRejection(call(), MismatchError, reason, name);
      expectThat(group.failure?.message === reason, 'the group reports its failure');
    },
  },
  {
    number: 161,
    title: 'abort ends operations and messages in flight on every rank',
    worlds: [2, 3, 4, 5, 7],
    inTabs: true,
    run: async (group, n) => {
      const right = (group.rank + 1) % n;
      const works: PromiseLike<unknown>[] = [
        group.irecv(new Float32Array(5), right, { tag: 1 }),
        group.isend(new Float32Array(300_000), right, { tag: 2 }),
        group.isend(new Float32Array(5), right, { tag: 3 }),
        ...(group.rank === 0 ? [] : [group.allReduce(one(1)), group.broadcast(new Float32Array(100_000), 1)]),
      ];
      if (group.rank === 0) setTimeout(() => group.abort(new Error('given up')), 20);
      for (const [i, work] of works.entries()) {
        await expectRejection(work, group.rank === 0 ? Error : PeerGoneError, 'given up', `work ${i}`);
      }
    },
  },
];
