/** Cases of barriers and timeouts, and of ranks that are late, killed or frozen. */
import { DEFAULT_OP_TIMEOUT_MS, ProcessGroup } from '../../src/collectives/processGroup.ts';
import { createMeshes, type TestWorld } from '../../src/testing/index.ts';
import { PeerGoneError, TimeoutError } from '../../src/util/errors.ts';
import { nameRanks, capitalizeFirst } from '../../src/util/text.ts';
import { sleep, type ConformanceCase } from './case.ts';
import { ConformanceError, expectEqual, expectRejection, expectThat } from './expect.ts';
import { filled, one, range, sumOfRanks } from './values.ts';

type Call = (group: ProcessGroup, timeoutMs: number) => PromiseLike<unknown>;

/** Calls of every collective, with rank 0 as the root. */
const COLLECTIVES: Record<string, Call> = {
  allReduce: (group, timeoutMs) => group.allReduce(one(1), { timeoutMs }),
  reduce: (group, timeoutMs) => group.reduce(one(1), 0, { timeoutMs }),
  broadcast: (group, timeoutMs) => group.broadcast(one(1), 0, { timeoutMs }),
  allGather: (group, timeoutMs) => group.allGather(one(1), { timeoutMs }),
  gather: (group, timeoutMs) => group.gather(one(1), 0, { timeoutMs }),
  scatter: (group, timeoutMs) => group.scatter(one(1), 0, range(group.worldSize).map(one), { timeoutMs }),
  reduceScatter: (group, timeoutMs) => group.reduceScatter(new Float32Array(group.worldSize), { timeoutMs }),
  allToAll: (group, timeoutMs) => group.allToAll(new Float32Array(group.worldSize), { timeoutMs }),
  'allReduce of nothing': (group, timeoutMs) => group.allReduce(new Float32Array(0), { timeoutMs }),
  'a large allReduce': (group, timeoutMs) => group.allReduce(new Float32Array(300_000), { timeoutMs }),
  'a large broadcast': (group, timeoutMs) => group.broadcast(new Float32Array(300_000), 0, { timeoutMs }),
  barrier: (group, timeoutMs) => group.barrier({ timeoutMs }),
  monitoredBarrier: (group, timeoutMs) => group.monitoredBarrier({ timeoutMs }),
  allReduceCoalesced: (group, timeoutMs) => group.allReduceCoalesced([one(1), Int32Array.of(1)], { timeoutMs }),
  broadcastCoalesced: (group, timeoutMs) => group.broadcastCoalesced([one(1)], 0, { timeoutMs }),
  allGatherCoalesced: (group, timeoutMs) => group.allGatherCoalesced([one(1)], { timeoutMs }),
  broadcastObject: (group, timeoutMs) => group.broadcastObject('x', 0, { timeoutMs }),
  allGatherObject: (group, timeoutMs) => group.allGatherObject('x', { timeoutMs }),
  gatherObject: (group, timeoutMs) => group.gatherObject('x', 0, { timeoutMs }),
  scatterObjects: (group, timeoutMs) => group.scatterObjects(range(group.worldSize), 0, { timeoutMs }),
};

/** Timeout in milliseconds of operations whose rank 0 is killed or frozen. */
const TROUBLE_TIMEOUT_MS = 2000;

/** Ways in which rank 0 can fail. */
const TROUBLE = {
  /** Simulates a closed tab: the links of rank 0 close. */
  kill: (world: TestWorld): void => world.links[0]!.forEach((link) => link.close()),
  /** Simulates a frozen tab: the links of rank 0 stay open, but neither receive nor send. */
  freeze: (world: TestWorld): void =>
    world.links[0]!.forEach((link) => {
      link.onframe = null;
      link.send = () => new Promise(() => {});
    }),
} as const;

/** Runs one round of a loop that ends only with an error. */
export const ALL_REDUCE_LOOP = async (group: ProcessGroup, round: number): Promise<unknown> =>
  group.allReduce(new Float32Array(1000).fill(round));

/** Functions that each run one round of such a loop. */
const LOOPS: Record<string, (group: ProcessGroup, round: number) => Promise<unknown>> = {
  'send and recv around the ring': (group, round) => {
    const n = group.worldSize;
    const into = new Float32Array(100);
    const received = group.irecv(into, (group.rank + n - 1) % n);
    return Promise.all([group.isend(new Float32Array(100).fill(round), (group.rank + 1) % n), received]);
  },
  allReduce: ALL_REDUCE_LOOP,
};

/**
 * Kills or freezes rank 0 after `afterMs`, in the middle of a loop, and checks the errors of the
 * other ranks.
 */
async function endsLoop(
  what: keyof typeof TROUBLE,
  loop: string,
  n: number,
  afterMs: number,
  kinds: readonly (typeof TimeoutError | typeof PeerGoneError)[],
): Promise<void> {
  const world = createMeshes(n);
  const groups = world.meshes.map((mesh) => new ProcessGroup(mesh, { timeoutMs: TROUBLE_TIMEOUT_MS }));
  const where = `${what} rank 0 of ${n} after ${afterMs} ms of ${loop}`;
  let happenedAt = Infinity;
  const run = async (group: ProcessGroup): Promise<void> => {
    try {
      for (let round = 0; ; round++) {
        await LOOPS[loop]!(group, round);
        // Memory links never wait for a timer, so this lets timers run.
        if (round % 10 === 0) await sleep(0);
      }
    } catch (error) {
      if (group.rank === 0) return;
      const elapsed = performance.now() - happenedAt;
      const isRight = kinds.some((kind) => error instanceof kind);
      expectThat(isRight, `${where}: rank ${group.rank} expected ${kinds[0]!.name}, got ${String(error)}`);
      expectThat(elapsed > 0, `${where}: rank ${group.rank} ended before the trouble: ${String(error)}`);
      if (what === 'freeze') {
        expectThat(elapsed >= TROUBLE_TIMEOUT_MS / 2, `${where}: rank ${group.rank} waited only ${elapsed} ms`);
      }
    }
  };
  const [, ...others] = groups.map(run);
  await sleep(afterMs);
  happenedAt = performance.now();
  TROUBLE[what](world);
  try {
    await Promise.all(others);
  } finally {
    for (const group of groups) group.destroy();
    world.close();
  }
}

async function endsLoops(what: keyof typeof TROUBLE, kinds: Parameters<typeof endsLoop>[4]): Promise<void> {
  const all = [2, 3, 4].flatMap((n) =>
    [0, 5, 50].flatMap((afterMs) => Object.keys(LOOPS).map((loop) => endsLoop(what, loop, n, afterMs, kinds))),
  );
  await Promise.all(all);
}

export const TIMEOUT_CASES: readonly ConformanceCase[] = [
  {
    number: 30,
    title: 'no rank passes a barrier before the last rank has arrived',
    worlds: [1, 2, 4, 7],
    inTabs: true,
    run: async (group, n) => {
      for (let last = 0; last < n; last++) {
        if (group.rank === last) await sleep(10);
        // The times of all ranks are comparable, because they are on one machine.
        const cameAt = Date.now();
        await group.barrier();
        const passedAt = Date.now();
        const [came] = await group.broadcast(Float64Array.of(cameAt), last);
        expectThat(passedAt >= came!, `rank ${group.rank} passed at ${passedAt}, rank ${last} arrived at ${came}`);
      }
    },
  },
  {
    number: 32,
    title: 'every collective times out on rank 0 if rank 1 does not call the collective',
    worlds: [2, 4],
    inTabs: true,
    needsWorld: true,
    run: async (world) => {
      for (const [name, call] of Object.entries(COLLECTIVES)) {
        const group = await world.newGroup([0, 1]);
        await group.allReduce(one(1));
        if (world.rank === 0) await expectRejection(call(group, 10), TimeoutError, /Timed out|failed to pass/, name);
        await world.barrier();
      }
    },
  },
  {
    number: 32,
    title: 'newGroup times out on rank 0 if rank 1 does not call newGroup',
    worlds: [2],
    run: async (world) => {
      if (world.rank === 1) return;
      await expectRejection(world.newGroup([0, 1], { timeoutMs: 10 }), TimeoutError, 'Timed out', 'newGroup');
    },
  },
  {
    number: 33,
    title: 'when a rank is killed, every other rank receives PeerGoneError',
    check: () => endsLoops('kill', [PeerGoneError]),
  },
  {
    number: 34,
    title: 'when a rank freezes, every other rank receives TimeoutError',
    check: () => endsLoops('freeze', [TimeoutError]),
  },
  {
    number: 35,
    title: 'monitoredBarrier times out with an error that names the missing ranks',
    worlds: [4],
    inTabs: true,
    needsWorld: true,
    run: async (world, n) => {
      const timeoutMs = 2000;
      type Options = NonNullable<Parameters<ProcessGroup['monitoredBarrier']>[0]>;
      const trials: [absent: number[], options: Options, message: string, lateMs?: number][] = [
        [[1], { timeoutMs }, `Rank 1 failed to pass monitoredBarrier in ${timeoutMs} ms`],
        [range(2, n - 1), { timeoutMs }, `Rank 2 failed to pass monitoredBarrier in ${timeoutMs} ms`],
        [
          range(1, n - 1),
          { timeoutMs, waitAllRanks: true },
          `${capitalizeFirst(nameRanks(range(1, n - 1)))} failed to pass monitoredBarrier in ${timeoutMs} ms`,
        ],
        [range(1, n - 1), { timeoutMs: 0 }, 'Rank 0 timed out in monitoredBarrier'],
        [[0], { timeoutMs: 50 }, 'rank 0 did not'],
        // Rank 0 is late, but its error must still name the missing rank.
        [[1], { timeoutMs: 400 }, 'Rank 1 failed to pass monitoredBarrier in 400 ms', 300],
      ];
      await Promise.all(
        trials.map(async ([absent, options, message, lateMs = 0]) => {
          const group = await world.newGroup(range(n));
          if (absent.includes(world.rank)) return;
          if (world.rank === 0) await sleep(lateMs);
          await expectRejection(group.monitoredBarrier(options), TimeoutError, message, `absent ${absent.join(', ')}`);
        }),
      );
      const members = await world.newGroup([0, 2]);
      // Rank 1 is not a member, so its call does nothing.
      if (world.rank < 3) await members.monitoredBarrier({ timeoutMs });
      const all = await world.newGroup(range(n));
      for (let round = 0; round < 5; round++) await all.monitoredBarrier({ timeoutMs, waitAllRanks: round % 2 === 1 });
    },
  },
  {
    number: 164,
    title: 'large operations of every kind in flight at the same time are correct, even if one rank is late',
    worlds: [2, 3, 9],
    inTabs: true,
    run: async (group, n) => {
      // The tensor is larger than what a rank may send before the receiver is ready.
      const count = n * Math.ceil(66_000 / n);
      const { rank } = group;
      const right = (rank + 1) % n;
      const left = (rank + n - 1) % n;
      for (const late of [0, n - 1]) {
        if (rank === late) await sleep(10);
        const into = new Float32Array(count);
        const [reduced, shared, gathered, parts, scattered, part, swapped, , from] = await Promise.all([
          group.allReduce(filled(count, rank)),
          group.broadcast(filled(count, rank), late),
          group.allGather(filled(count, rank)),
          group.gather(filled(count, rank), late),
          group.scatter(filled(count, -1), late, rank === late ? range(n).map((value) => filled(count, value)) : null),
          group.reduceScatter(filled(count, rank)),
          group.allToAll(filled(count, rank)),
          group.isend(filled(count, rank), right),
          group.irecv(into, left),
          group.reduce(filled(count, rank), late),
        ]);
        const where = `rank ${late} is late`;
        expectEqual(reduced, filled(count, sumOfRanks(n)), `allReduce, ${where}`);
        expectEqual(shared, filled(count, late), `broadcast, ${where}`);
        expectEqual(
          gathered,
          range(n).map((value) => filled(count, value)),
          `allGather, ${where}`,
        );
        expectEqual(parts, rank === late ? range(n).map((value) => filled(count, value)) : null, `gather, ${where}`);
        expectEqual(scattered, filled(count, rank), `scatter, ${where}`);
        expectEqual(part, filled(count, sumOfRanks(n)).slice(0, count / n), `reduceScatter, ${where}`);
        expectEqual(
          swapped,
          Float32Array.from({ length: count }, (_, i) => Math.floor(i / (count / n))),
          `allToAll, ${where}`,
        );
        expectEqual([from, into], [left, filled(count, left)], `message, ${where}`);
      }
    },
  },
  {
    number: 165,
    title: 'ranks can issue more operations than may be in flight, at different times, and all results are correct',
    worlds: [2, 3],
    inTabs: true,
    run: async (group, n) => {
      // Each object collective needs a second operation once sizes are known. This one must not
      // wait for later operations, which wait for other ranks.
      const objects = range(80).map((i) => group.allGatherObject(i + group.rank));
      if (group.rank > 0) await sleep(20);
      const tensors = range(80).map((i) => group.allReduce(one(i)));
      for (const [i, object] of objects.entries())
        expectEqual(
          await object,
          range(n).map((rank) => i + rank),
          `object ${i}`,
        );
      for (const [i, tensor] of tensors.entries()) expectEqual(await tensor, one(i * n), `tensor ${i}`);
    },
  },
  {
    number: 162,
    title: 'a timeout can be set for a group, an operation or a wait, and is 60 s by default',
    worlds: [2, 4],
    inTabs: true,
    needsWorld: true,
    run: async (world, n) => {
      expectEqual([DEFAULT_OP_TIMEOUT_MS, world.timeoutMs], [60_000, 60_000], 'default');
      const trials: [string, string, (group: ProcessGroup) => PromiseLike<unknown>][] = [
        ['of the group', 'waited 20 ms', (group) => group.barrier()],
        ['of an op', 'waited 15 ms', (group) => group.barrier({ timeoutMs: 15 })],
        ['of a message', 'waited 20 ms', (group) => group.irecv(one(1), 1)],
      ];
      for (const [what, message, call] of trials) {
        const group = await world.newGroup(range(n));
        group.timeoutMs = 20;
        if (world.rank === 0) await expectRejection(call(group), TimeoutError, message, what);
        await world.barrier();
      }
      const group = await world.newGroup(range(n));
      if (world.rank > 0) await sleep(100);
      const work = group.allReduce(one(1));
      if (world.rank === 0) await expectRejection(work.wait(1), TimeoutError, 'after 1 ms of waiting', 'wait');
      expectEqual(await work, one(n), 'an op continues after a wait that was too short');
      // These timeouts are longer than setTimeout allows.
      for (const timeoutMs of [Infinity, 2 ** 40]) {
        if (world.rank > 0) await sleep(10);
        expectEqual(await group.allReduce(one(1), { timeoutMs }), one(n), `an op with a timeout of ${timeoutMs} ms`);
      }
    },
  },
  {
    number: 163,
    title: 'the error of a timeout names the rank that has not called, and the calls of all other ranks',
    worlds: [2, 3, 4, 5],
    run: async (group, n) => {
      if (group.rank === n - 1) return sleep(300);
      await group.allReduce(one(1), { timeoutMs: 100 }).then(
        () => {
          throw new ConformanceError('an allReduce that one rank did not call succeeded');
        },
        (error: unknown) => {
          expectThat(error instanceof TimeoutError, `expected TimeoutError, got ${String(error)}`);
          const names = `Rank ${n - 1} has called no collective at all. ${capitalizeFirst(nameRanks(range(n - 1)))} called allReduce(1 float32, SUM).`;
          expectThat(error.message.endsWith(names), `expected "... ${names}", got "${error.message}"`);
          expectEqual(error.context.missing, [n - 1], 'context.missing');
        },
      );
    },
  },
];
