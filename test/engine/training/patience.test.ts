/** Runs with early stopping, on TensorFlow.js's CPU backend. */
import type * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import type { TrainingTask } from '../../../src/engine/tasks/task.ts';
import type { RunResult } from '../../../src/protocol/runResult.ts';
import { COUNTING_PLAN, createCountingTask, createMember, runGeneration, type Member } from '../worlds.ts';

const SAMPLES = 12;
/**
 * A run that ends only by patience. An evaluation follows each epoch. An epoch has 2 steps with 3
 * ranks, or 3 steps with 2 ranks.
 */
const PLAN = { ...COUNTING_PLAN, epochs: 1000, hashEvery: 1000 };
/**
 * The number of frames of a step. The frames of the evaluation and then of the comparison follow.
 */
const STEP_FRAMES = 12;

/**
 * Every step adds 1 to the sum of all weights, so the task's evaluation can compute the number of
 * steps. The loss is lowest after `best` steps.
 */
function taskWithBest(best: number): TrainingTask {
  const task = createCountingTask({ samples: SAMPLES });
  const [first, second] = task.model as tf.Variable[];
  return {
    ...task,
    evaluate: (indices) => {
      const steps = [first!, second!].flatMap((one) => [...one.dataSync()]).reduce((sum, one) => sum + one, 0);
      return Promise.resolve({ lossSum: indices.length * (1 + Math.abs(Math.round(steps) - best)), correct: 0 });
    },
  };
}

async function createMembers(count: number, patience = 2): Promise<{ members: Member[]; kept: number[][] }> {
  const kept: number[][] = [];
  const members: Member[] = [];
  for (let i = 0; i < count; i++) {
    const keepBest = (): Promise<void> => {
      kept[i]!.push(members[i]!.run.steps);
      return Promise.resolve();
    };
    kept.push([]);
    members.push(await createMember(`m${i}`, taskWithBest(5), { ...PLAN, patience }, { keepBest }));
  }
  return { members, kept };
}

test('all ranks end after the same evaluation with equal states, and keep the best model', async () => {
  const { members, kept } = await createMembers(3);
  const { results } = await runGeneration(members);
  for (const result of results) {
    expect(result).toMatchObject({ steps: 8, valLoss: 4, best: { step: 4, valLoss: 2 } });
    expect(new Set((result as RunResult).stateHash).size).toBe(1);
  }
  expect(kept).toEqual([0, 1, 2].map(() => [2, 4]));
  for (const member of members) member.dispose();
});

test('the result is the same on all ranks, at whichever frame of the final evaluation a rank is lost', async () => {
  let redone = 0;
  for (let frame = STEP_FRAMES; ; frame++) {
    const { members } = await createMembers(3, 1);
    const { isBroken, results } = await runGeneration(members, { end: { rank: 2, step: 5, frame } });
    const survivors = members.slice(0, 2);
    const { results: ends } = isBroken ? await runGeneration(survivors) : { results };
    // If the sixth step was not applied before the loss of rank 2, the two other ranks have other
    // steps in the epoch.
    const expected = { steps: 6, best: { step: 4, valLoss: 2 } };
    if (survivors.some(({ run }) => run.steps === 6)) for (const end of ends) expect(end).toMatchObject(expected);
    const [one, other] = ends as RunResult[];
    expect(one).toMatchObject({ steps: other!.steps, best: other!.best, stateHash: other!.stateHash });
    if (results.some((result) => result instanceof Error) && one!.steps === 6) redone += 1;
    for (const member of members) member.dispose();
    if (!isBroken) break;
  }
  expect(redone).toBeGreaterThan(3);
}, 60_000);

test.each(['streaming-diloco', 'sparseloco'])(
  'with %s, ranks have equal models after the evaluation that ends the run',
  async (strategy) => {
    const plan = { ...PLAN, strategy, syncEvery: 4, patience: 1 };
    const members = await Promise.all([0, 1, 2].map((i) => createMember(`m${i}`, taskWithBest(0), plan)));
    const { results } = await runGeneration(members);
    for (const [i, result] of results.entries()) {
      expect(result).toMatchObject({ steps: (results[0] as RunResult).steps });
      expect((result as RunResult).losses).toHaveLength((result as RunResult).steps);
      expect(members[i]!.values()).toEqual(members[0]!.values());
    }
    for (const member of members) member.dispose();
  },
);

test('a joining rank receives the results of earlier evaluations', async () => {
  const { members } = await createMembers(3);
  await runGeneration(members, { end: { rank: 2, step: 6, frame: 0 } });
  const { members: late } = await createMembers(1);
  const { results } = await runGeneration([...late, ...members.slice(0, 2)]);
  for (const result of results) expect(result).toMatchObject({ steps: 8, best: { step: 4, valLoss: 2 } });
  for (const member of [...members, ...late]) member.dispose();
});

const bestOf = async ({ rank }: Member): Promise<number | undefined> =>
  (await rank.snapshot()).progress.verdicts.at(-1)?.best;

test('ranks that repeat an evaluation with different rounding errors continue with one common result', async () => {
  // The sum depends on the order of addition, so three ranks and two ranks compute different last
  // bits.
  const losses = [1e-16, 1e-16, 1e-16, 1];
  const make = (i: number): Promise<Member> => {
    const task = createCountingTask({ samples: SAMPLES });
    const evaluate: TrainingTask['evaluate'] = (indices) =>
      Promise.resolve({ lossSum: indices.reduce((sum, index) => sum + losses[index]!, 0), correct: 0 });
    return createMember(`m${i}`, { ...task, testSamples: losses.length, evaluate }, { ...PLAN, patience: 3 });
  };
  let compared = 0;
  for (let frame = STEP_FRAMES; ; frame++) {
    const members = await Promise.all([0, 1, 2].map(make));
    const { isBroken } = await runGeneration(members, { end: { rank: 2, step: 1, frame } });
    const bests = await Promise.all(members.map(bestOf));
    const others = members.filter((_, i) => bests[i] === undefined);
    if (isBroken && others.length === 2 && members.every(({ run }) => run.steps === 2)) {
      const end = { rank: 0, step: 2, frame: 0 };
      await runGeneration(others, { end });
      expect(await bestOf(others[0]!)).not.toBe(bests.find((best) => best !== undefined));
      await runGeneration(members, { end });
      expect(new Set(await Promise.all(members.map(bestOf))).size).toBe(1);
      compared += 1;
    }
    for (const member of members) member.dispose();
    if (!isBroken || members.every(({ run }) => run.steps > 2)) break;
  }
  expect(compared).toBeGreaterThan(0);
}, 60_000);
