/** Tests of ops whose missing ranks work, according to the group's creator. */
import { expect, test } from 'vitest';
import type { AwaitedRanksActivity } from '../../src/collectives/options.ts';
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { createMeshes } from '../../src/testing/index.ts';
import { errorOf } from '../errorOf.ts';
import { ManualClock } from '../manualClock.ts';
import { pause } from './faultyRanks.ts';

const TIMEOUT_MS = 1000;

/** Creates two ranks. `answers` are what rank 0 is told about the ranks that it waits for. */
function ranksWith(answers: (() => Promise<AwaitedRanksActivity>)[]) {
  const clock = new ManualClock();
  const asked: number[][] = [];
  const { meshes } = createMeshes(2);
  const activityOf = (ranks: readonly number[]): Promise<AwaitedRanksActivity> => {
    asked.push([...ranks]);
    return answers.shift()!();
  };
  const [group, other] = meshes.map(
    (mesh, rank) => new ProcessGroup(mesh, { clock, timeoutMs: TIMEOUT_MS, ...(rank === 0 ? { activityOf } : {}) }),
  );
  const elapse = async (ms: number): Promise<void> => {
    for (let i = 0; i < ms / 100; i++) {
      clock.advance(100);
      await pause(0);
    }
  };
  return { group: group!, other: other!, asked, elapse };
}

const works = () => Promise.resolve({ areWorking: true, text: 'Rank 1 evaluates.' });
const hangs = () => Promise.resolve({ areWorking: false, text: 'Rank 1 has hung in step 7 for 70 s.' });
const fails = () => Promise.reject(new Error('no server'));
const never = () => new Promise<never>(() => {});

const waits: [string, (group: ProcessGroup) => PromiseLike<unknown>][] = [
  ['a collective', (group) => group.allReduce(new Float32Array(4))],
  ['a receive', (group) => group.recv(new Float32Array(4), 1)],
  ['a receive from any rank', (group) => group.recv(new Float32Array(4))],
  ['a send', (group) => group.send(new Float32Array(4), 1)],
  ['an object collective', (group) => group.allGatherObject('a')],
  ['a monitored barrier', (group) => group.monitoredBarrier()],
];

test.each(waits)('the timeout of %s begins again as long as the other rank works', async (_what, call) => {
  const { group, asked, elapse } = ranksWith([works, works, hangs]);
  const error = errorOf(call(group));
  await elapse(2 * TIMEOUT_MS + 900);
  const before = [group.failure, asked];
  await elapse(TIMEOUT_MS);
  expect([...before, (await error).message]).toEqual([
    null,
    [[1], [1], [1]],
    expect.stringMatching(/Rank 1 has hung in step 7 for 70 s\.$/),
  ]);
});

test.each(waits)('%s names the rank that it waits for, until the wait ends', async (_what, call) => {
  const { meshes } = createMeshes(2);
  const [group] = meshes.map((mesh) => new ProcessGroup(mesh, { clock: new ManualClock() }));
  const before = meshes[0]!.awaited;
  const error = errorOf(call(group!));
  await pause(0);
  const during = meshes[0]!.awaited;
  group!.abort(new Error('over'));
  await error;
  expect([before, during, meshes[0]!.awaited]).toEqual([[], [1], []]);
});

test.each([
  ['is not answered', never],
  ['fails', fails],
])("a collective fails if the question about the other rank's activity %s", async (_what, answer) => {
  const { group, elapse } = ranksWith([answer]);
  const error = errorOf(group.allReduce(new Float32Array(4)));
  await elapse(TIMEOUT_MS + 6000);
  expect((await error).context.missing).toEqual([1]);
});

test('an op that completes before the question about the other rank is answered does not fail', async () => {
  const { group, other, elapse } = ranksWith([never]);
  const sum = group.allReduce(Float32Array.of(1));
  await elapse(TIMEOUT_MS + 600);
  const others = other.allReduce(Float32Array.of(2));
  await elapse(6000);
  expect([[...(await sum)], [...(await others)], group.failure]).toEqual([[3], [3], null]);
});

test('an op that waited during the question about another op still has a deadline', async () => {
  const { group, other, elapse } = ranksWith([works, works, hangs]);
  const first = group.allReduce(Float32Array.of(1));
  const second = errorOf(group.allReduce(Float32Array.of(1)));
  await elapse(TIMEOUT_MS + 600);
  void other.allReduce(Float32Array.of(2));
  await elapse(2 * TIMEOUT_MS);
  expect([[...(await first)], (await second).context.seq]).toEqual([[3], 1]);
});
