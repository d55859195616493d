/** Cases of subgroups. */
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { ReduceOp } from '../../src/protocol/frame.ts';
import { MismatchError, TimeoutError, UsageError } from '../../src/util/errors.ts';
import type { ConformanceCase } from './case.ts';
import { expectEqual, expectRejection, expectThat, expectThrow } from './expect.ts';
import { filled, one, range, sum } from './values.ts';

/** Returns the ranks of the world except rank 0, in reverse order. */
function oddGroup(n: number): number[] {
  return range(1, n - 1).reverse();
}

/** Calls every collective of `group` on a member. Roots and peers are given as global ranks. */
async function usesGlobalRanks(group: ProcessGroup, members: readonly number[], me: number): Promise<void> {
  const k = members.length;
  const mine = members.indexOf(me);
  expectEqual([group.rank, group.worldSize, group.ranks], [mine, k, members], 'rank, size and ranks');
  expectEqual(await group.allReduce(one(me)), one(sum(members)), 'allReduce');
  expectEqual(await group.allGather(one(me)), members.map(one), 'allGather in the order of the group');
  expectEqual(await group.reduceScatter(Float32Array.from(members)), one(members[mine]! * k), 'reduceScatter');
  for (const root of members) {
    const isRoot = me === root;
    expectEqual(await group.broadcast(one(me), root), one(root), `broadcast from ${root}`);
    const reduced = await group.reduce(one(me), root);
    if (isRoot) expectEqual(reduced, one(sum(members)), `reduce to ${root}`);
    expectEqual(await group.gather(one(me), root), isRoot ? members.map(one) : null, `gather to ${root}`);
    const parts = isRoot ? members.map((member) => one(member * 10)) : null;
    expectEqual(await group.scatter(one(-1), root, parts), one(me * 10), `scatter from ${root}`);
    expectEqual(await group.broadcastObject(isRoot ? { root } : undefined, root), { root }, `broadcastObject`);
    expectEqual(await group.gatherObject(me, root), isRoot ? members : null, `gatherObject to ${root}`);
    expectEqual(await group.scatterObjects(isRoot ? members : null, root), me, `scatterObjects from ${root}`);
  }
  const next = members[(mine + 1) % k]!;
  const previous = members[(mine + k - 1) % k]!;
  const into = one(-1);
  const [, from] = await Promise.all([group.isend(one(me), next), group.irecv(into, null)]);
  expectEqual([from, into], [previous, one(previous)], 'receive from any rank: sender and value');
  const named = group.irecv(into, previous);
  await group.send(one(me), next);
  expectEqual(await named, previous, 'receive from a named rank: sender');
  for (const stranger of [0, -1, members.length + 7]) {
    expectThrow(() => group.broadcast(one(1), stranger), UsageError, 'Invalid root rank', `broadcast from ${stranger}`);
    expectThrow(() => group.isend(one(1), stranger), UsageError, 'Invalid destination rank', `send to ${stranger}`);
  }
  await group.monitoredBarrier();
  await group.barrier();
}

/**
 * Calls every method on a rank that is not a member. The calls must not affect this rank or the
 * members.
 */
async function isNoOp(group: ProcessGroup, members: readonly number[]): Promise<void> {
  const root = members[0]!;
  const tensor = Float32Array.from(range(12));
  const calls: Record<string, () => PromiseLike<unknown>> = {
    allReduce: () => group.allReduce(tensor),
    'allReduce with PREMUL_SUM': () => group.allReduce(tensor, { op: ReduceOp.PREMUL_SUM, factor: 3 }),
    reduce: () => group.reduce(tensor, root),
    'reduce with PREMUL_SUM': () => group.reduce(tensor, root, { op: ReduceOp.PREMUL_SUM, factor: 3 }),
    broadcast: () => group.broadcast(tensor, root),
    allGather: () => group.allGather(tensor),
    gather: () => group.gather(tensor, root),
    scatter: () => group.scatter(tensor, root, null),
    reduceScatter: () => group.reduceScatter(tensor),
    allToAll: () => group.allToAll(tensor),
    barrier: () => group.barrier(),
    monitoredBarrier: () => group.monitoredBarrier({ timeoutMs: 0 }),
    allReduceCoalesced: () => group.allReduceCoalesced([tensor]),
    broadcastCoalesced: () => group.broadcastCoalesced([tensor], root),
    allGatherCoalesced: () => group.allGatherCoalesced([tensor]),
    broadcastObject: () => group.broadcastObject('mine', root),
    allGatherObject: () => group.allGatherObject('mine'),
    gatherObject: () => group.gatherObject('mine', root),
    scatterObjects: () => group.scatterObjects(null, root),
    send: () => group.send(tensor, root),
    recv: () => group.recv(tensor, root),
  };
  const before = group.bytesSent;
  for (const [name, call] of Object.entries(calls)) {
    await call();
    expectEqual(tensor, Float32Array.from(range(12)), `${name} of a rank that is not a member: tensor`);
  }
  group.abort(new Error('a rank that is not a member'));
  group.destroy();
  expectEqual(group.bytesSent, before, 'bytes sent by a rank that is not a member');
}

export const GROUP_CASES: readonly ConformanceCase[] = [
  {
    number: 122,
    title: 'calls of a subgroup interpret src, dst and peers as global ranks',
    worlds: [3, 4, 5, 7],
    inTabs: true,
    needsWorld: true,
    run: async (world, n) => {
      const members = oddGroup(n);
      const group = await world.newGroup(members);
      if (members.includes(world.rank)) await usesGlobalRanks(group, members, world.rank);
      await world.barrier();
    },
  },
  {
    number: 123,
    title: 'a rank that is not a member of a subgroup can call its methods without any effect',
    worlds: [3, 4, 5],
    inTabs: true,
    needsWorld: true,
    run: async (world, n) => {
      const members = oddGroup(n);
      const group = await world.newGroup(members);
      expectEqual(group.rank, members.indexOf(world.rank), 'rank');
      if (!members.includes(world.rank)) await isNoOp(group, members);
      await world.barrier();
      if (members.includes(world.rank)) {
        expectEqual(await group.allReduce(one(1)), one(n - 1), 'the members are not affected');
      }
    },
  },
  {
    number: 124,
    title: 'collectives of subgroups and of the world in flight at the same time all return correct results',
    worlds: [2, 4, 6, 8],
    inTabs: true,
    needsWorld: true,
    run: async (world, n) => {
      const [halves] = await world.newSubgroups(n / 2);
      const [pair] = await world.newSubgroups(2);
      const [alone] = await world.newSubgroups(1);
      const all = await world.newGroup(range(n).reverse());
      const { rank } = world;
      const count = 5000;
      const half = range(n / 2).map((i) => Math.floor(rank / (n / 2)) * (n / 2) + i);
      for (let round = 0; round < 10; round++) {
        // Calls must have the same order on all ranks only within a group.
        const calls = [
          async () => expectEqual(await world.allReduce(filled(count, rank)), filled(count, sum(range(n))), 'world'),
          async () => expectEqual(await halves.allReduce(filled(count, rank)), filled(count, sum(half)), 'half'),
          async () =>
            expectEqual(await pair.allReduce(filled(count, rank)), filled(count, 2 * (rank - (rank % 2)) + 1), 'pair'),
          async () => expectEqual(await alone.allReduce(filled(count, rank)), filled(count, rank), 'alone'),
          async () =>
            expectEqual(
              (await all.allGather(filled(count, rank)))[0],
              filled(count, n - 1),
              'all ranks in reverse order',
            ),
        ];
        const turn = (rank + round) % calls.length;
        await Promise.all([...calls.slice(turn), ...calls.slice(0, turn)].map((call) => call()));
      }
    },
  },
  {
    number: 125,
    title: 'a failed subgroup does not affect the world and other subgroups',
    worlds: [4],
    inTabs: true,
    needsWorld: true,
    run: async (world, n) => {
      const first = await world.newGroup([0, 1]);
      const second = await world.newGroup([2, 3]);
      if (world.rank < 2) {
        const work = first.allReduce(new Float32Array(world.rank + 1));
        const error = await expectRejection(work, MismatchError, 'Rank 1 called', 'first subgroup');
        expectThat(first.failure === error, 'the subgroup reports its failure');
      } else {
        expectEqual(await second.allReduce(one(world.rank)), one(5), 'second subgroup');
      }
      expectEqual(await world.allReduce(one(1)), one(n), 'world');
      const third = await world.newGroup([1, 3]);
      expectEqual(await third.allReduce(one(world.rank)), one(world.rank % 2 === 1 ? 4 : world.rank), 'a new subgroup');
    },
  },
  {
    number: 126,
    title: 'newGroup and newSubgroups reject invalid ranks and sizes',
    worlds: [3, 4],
    inTabs: true,
    needsWorld: true,
    run: async (world, n) => {
      for (const [ranks, message] of [
        [[], 'at least one rank'],
        [[0, 0], 'Each rank can be in a group only once'],
        [[0, n], `Rank ${n} does not exist`],
        [[-1], 'Rank -1 does not exist'],
        [[0.5], 'Rank 0.5 does not exist'],
      ] as const) {
        await expectRejection(world.newGroup(ranks), UsageError, message, `newGroup([${ranks.join(', ')}])`);
      }
      for (const size of [0, n - 1, n + 1, 1.5]) {
        if (n % size === 0) continue;
        await expectRejection(world.newSubgroups(size), UsageError, 'cannot be divided', `newSubgroups(${size})`);
      }
      const group = await world.newGroup([0, 1]);
      await expectRejection(group.newGroup([0]), UsageError, 'on the world group', 'newGroup of a subgroup');
      expectEqual(await world.allReduce(one(1)), one(n), 'the world is usable');
    },
  },
  {
    number: 127,
    title: 'newGroup fails on every rank if one rank passes a different list of ranks',
    worlds: [2, 3, 4, 5],
    run: async (world, n) => {
      const ranks = world.rank === n - 1 ? range(n).reverse() : range(n);
      const error = await expectRejection(world.newGroup(ranks), MismatchError, 'different ranks', 'newGroup');
      expectThat(error.message.includes(`rank ${n - 1}`), `the message names the rank: ${error.message}`);
    },
  },
  {
    number: 128,
    title: 'a subgroup has a timeout of its own, which can be changed',
    worlds: [3, 4],
    inTabs: true,
    needsWorld: true,
    run: async (world) => {
      const group = await world.newGroup([0, 1], { timeoutMs: 1000 });
      expectEqual([group.timeoutMs, world.timeoutMs], [1000, 60_000], 'timeouts of group and world');
      group.timeoutMs = 30;
      if (world.rank === 0) await expectRejection(group.barrier(), TimeoutError, 'waited 30 ms', 'barrier');
      await world.barrier();
    },
  },
];
