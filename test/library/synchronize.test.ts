/** How ranks of an elastic job agree on a commit, without a room. */
import * as tf from '@tensorflow/tfjs';
import { afterEach, expect, test, vi } from 'vitest';
import { CommittedState } from '../../src/library/elastic/committedState.ts';
import { ElasticState } from '../../src/library/elastic/elasticState.ts';
import { digestOfCommit, synchronizeCommits } from '../../src/library/elastic/synchronize.ts';
import { createOptimizer } from '../../src/optim/index.ts';
import { CommittedVariables } from '../../src/parallel/backward/committedVariables.ts';
import { runWorld } from '../../src/testing/index.ts';
import { errorOf } from '../errorOf.ts';

const SIZE = 10;

/** Creates the states of ranks with `steps` commits each, all of generation 1. */
function createCommits(steps: readonly number[]) {
  return steps.map((count) => {
    const weights = tf.tidy(() => tf.variable(tf.zeros([SIZE])));
    const state = new ElasticState({
      model: [weights],
      optimizer: createOptimizer('adam', { learningRate: 1 }, SIZE),
      step: 0,
    });
    const committed = new CommittedState(state);
    for (state.step = 1; state.step <= count; state.step++) {
      tf.tidy(() => weights.assign(weights.add(1)));
      committed.save(1);
    }
    return { weights, committed };
  });
}

const valuesOf = (ranks: ReturnType<typeof createCommits>): number[] =>
  ranks.map(({ weights }) => weights.dataSync()[0]!);

let ranks: ReturnType<typeof createCommits> = [];

afterEach(() => {
  vi.restoreAllMocks();
  for (const { weights, committed } of ranks) {
    committed.dispose();
    weights.dispose();
  }
});

test.each([
  { steps: [2, 2], reads: [1, 1] },
  { steps: [2, 1], reads: [1, 2] },
  { steps: [1, 2, 2], reads: [2, 1, 1] },
])('ranks with $steps commits read their variables $reads times', async ({ steps, reads }) => {
  ranks = createCommits(steps);
  const counts = ranks.map(({ committed }) => vi.spyOn(committed, 'read'));
  const whole = vi.spyOn(CommittedVariables.prototype, 'read');
  const digests = await runWorld(steps.length, (group) =>
    synchronizeCommits(group, ranks[group.rank]!.committed, false, {}),
  );
  expect(counts.map(({ mock }) => mock.calls.length)).toEqual(reads);
  expect(whole).toHaveBeenCalledTimes(reads.reduce((sum, each) => sum + each));
  expect(valuesOf(ranks)).toEqual(steps.map(() => 2));
  const own = await Promise.all(ranks.map(async ({ committed }) => digestOfCommit(await committed.read())));
  expect(digests).toEqual(own);
  expect(new Set(own).size).toBe(1);
});

test('a rank whose GPU has different values after the transfer is rejected', async () => {
  ranks = createCommits([2, 2, 1]);
  const write = vi.spyOn(CommittedVariables.prototype, 'write');
  write.mockImplementationOnce(function (this: CommittedVariables, flat) {
    this.write(flat.map((value) => value + 1));
  });
  const error = await errorOf(
    runWorld(3, (group) => synchronizeCommits(group, ranks[group.rank]!.committed, false, {})),
  );
  expect(error.message).toMatch(/^The state of rank 2 still differs after the other ranks' state was loaded\./);
});

test('a rank that commits during the transfer is rejected', async () => {
  ranks = createCommits([2, 2, 1]);
  const { committed } = ranks[1]!;
  const error = await errorOf(
    runWorld(3, (group) =>
      synchronizeCommits(group, ranks[group.rank]!.committed, false, {
        onreceived: () => {
          if (group.rank === 1 && committed.progress().step === 2) committed.save(1);
        },
      }),
    ),
  );
  expect(error.message).toMatch(/^The state of rank 1 still differs after the other ranks' state was loaded\./);
});
