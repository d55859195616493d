/** Choice of the algorithm of all-reduces. */
import { expect, test } from 'vitest';
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import type { AllReduceOptions } from '../../src/collectives/options.ts';
import { ALL_REDUCE_NAMES, type AlgorithmName } from '../../src/spec/algorithms.ts';
import { runWorld } from '../../src/testing/index.ts';

/** Sums [rank, 1] over the group, and returns the result and the algorithm that was recorded. */
async function sumIn(group: ProcessGroup, options: AllReduceOptions = {}) {
  const tensor = Float32Array.of(group.rank, 1);
  await group.allReduce(tensor, options);
  return { sum: [...tensor], algorithm: group.flightRecording.records.at(-1)!.algorithm };
}

test.each(ALL_REDUCE_NAMES)('an all-reduce uses the algorithm %s if the call names it', async (algorithm) => {
  const ranks = await runWorld(4, (group) => sumIn(group, { algorithm }));
  expect(ranks).toEqual(ranks.map(() => ({ sum: [6, 4], algorithm })));
});

test('the algorithm of a group is the default of its calls, and a call can name another one', async () => {
  const ranks = await runWorld(4, async (group) => {
    group.algorithm = 'two-level';
    return [await sumIn(group), await sumIn(group, { algorithm: 'doubling' })];
  });
  expect(ranks.map((calls) => calls.map(({ algorithm }) => algorithm))).toEqual(
    ranks.map(() => ['two-level', 'doubling']),
  );
});

test('the algorithm of a group is also the default of its coalesced all-reduces', async () => {
  const ranks = await runWorld(4, async (group) => {
    group.algorithm = 'doubling';
    await group.allReduceCoalesced([Float32Array.of(1)]);
    return group.flightRecording.records.at(-1)!.algorithm;
  });
  expect(ranks).toEqual(ranks.map(() => 'doubling'));
});

test('a new group uses its own algorithm, and without one it chooses automatically', async () => {
  const ranks = await runWorld(5, async (world) => {
    world.algorithm = 'halving-doubling';
    const named = await world.newGroup([0, 1, 2, 3], { algorithm: 'two-level' });
    const automatic = await world.newGroup([0, 1, 2, 3]);
    return world.rank === 4 ? null : [(await sumIn(named)).algorithm, (await sumIn(automatic)).algorithm];
  });
  const members = ranks.slice(0, 4);
  expect(ranks).toEqual([...members.map(() => ['two-level', 'ring']), null]);
});

test('an algorithm that is unknown, or that the ranks cannot run, is rejected before anything is sent', async () => {
  await runWorld(5, async (group) => {
    await expect(sumIn(group, { algorithm: 'star' as AlgorithmName })).rejects.toThrow(
      'There is no algorithm "star". Use one of these: auto, ring, two-level, halving-doubling, doubling.',
    );
    await expect(sumIn(group, { algorithm: 'two-level' })).rejects.toThrow(
      'The all-reduce cannot run: two-level needs groups of equal size, but 5 ranks cannot be divided into several ' +
        'groups of 2 or more. Pass the algorithm ring or auto.',
    );
    expect(group.bytesSent).toBe(0);
    expect((await sumIn(group)).sum).toEqual([10, 5]);
  });
});
