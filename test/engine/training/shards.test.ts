/** Runs in which every rank has samples of its own. */
import { describe, expect, test } from 'vitest';
import type { TrainingTask } from '../../../src/engine/tasks/task.ts';
import {
  COUNTING_PLAN,
  createCountingTask,
  createMember,
  isLoss,
  runGeneration,
  stepsOf,
  type Member,
} from '../worlds.ts';

/**
 * Creates a task with some samples of `all`. Only one rank has these samples, which start at
 * `first`.
 */
function shardOf(all: number, first: number, samples: number): TrainingTask {
  const whole = createCountingTask({ samples: all });
  return {
    ...whole,
    ...{ trainSamples: samples, testSamples: samples, isShard: true },
    withBatch: (indices, use, ...rest) =>
      whole.withBatch(
        indices.map((index) => index + first),
        use,
        ...rest,
      ),
  };
}

async function members(sizes: readonly number[], plan: Record<string, unknown> = {}): Promise<Member[]> {
  const all = sizes.reduce((sum, size) => sum + size, 0);
  const firsts = sizes.map((_, i) => sizes.slice(0, i).reduce((sum, size) => sum + size, 0));
  return Promise.all(
    sizes.map((size, i) => createMember(`m${i}`, shardOf(all, firsts[i]!, size), { ...COUNTING_PLAN, ...plan })),
  );
}

/** Returns how often each sample was applied. */
function countsOf(member: Member, all: number): number[] {
  const sizes = stepsOf([member]).map(({ samples }) => samples);
  const weights = member.values().slice(0, all);
  // Steps of the same size add the same amount to each of their samples.
  expect(new Set(sizes).size).toBe(1);
  return weights.map((weight) => Math.round(weight * sizes[0]!));
}

describe('ranks with their own samples', () => {
  test('apply each sample once per epoch, to one common model', async () => {
    const all = await members([6, 3, 9], { batchSize: 3, epochs: 2 });
    const { results } = await runGeneration(all);
    for (const result of results) expect(result).toMatchObject({ steps: 6, epochs: 2 });
    expect(stepsOf(all).map(({ samples, offset }) => [samples, offset])).toEqual([
      [6, 0],
      [6, 6],
      [6, 12],
      [6, 0],
      [6, 6],
      [6, 12],
    ]);
    expect(countsOf(all[0]!, 18)).toEqual(Array.from({ length: 18 }, () => 2));
    expect(new Set(all.map(({ rank }) => rank.stateHash())).size).toBe(1);
    const told = all[1]!.events.find(({ type }) => type === 'model');
    expect(told).toMatchObject({ totalSteps: 6, trainSamples: 18, testSamples: 18 });
    all.forEach((one) => one.dispose());
  });

  test('evaluate the same fraction of their held-out samples', async () => {
    const all = await members([4, 8], { batchSize: 4, epochs: 1 });
    await runGeneration(all);
    const tests = all.map(({ events }) => events.filter(({ type }) => type === 'evaluation').at(-1));
    for (const one of tests) expect(one).toMatchObject({ samples: 12, loss: 1, accuracy: 1 });
    all.forEach((one) => one.dispose());
  });

  test('continue without a lost rank, and apply no sample twice', async () => {
    const all = await members([4, 4, 4], { batchSize: 1, epochs: 1 });
    const before = await runGeneration(all, { end: { rank: 1, step: 2, frame: 0 } });
    expect(before.results.every(isLoss)).toBe(true);
    const rest = [all[2]!, all[0]!];
    const { results } = await runGeneration(rest);
    for (const result of results) expect(result).toMatchObject({ steps: 4, epochs: 1 });
    const steps = stepsOf(rest).map(({ samples }) => samples);
    expect(steps).toEqual([3, 3, 2, 2]);
    // With three ranks, a sample of m0 or m2 is a third of its window; with two ranks it is a half.
    const weights = all[0]!.values().slice(0, 12);
    const [first, , third] = [weights.slice(0, 4), weights.slice(4, 8), weights.slice(8)];
    for (const own of [first, third]) {
      const rounded = own.map((weight) => weight.toFixed(3)).sort();
      expect(rounded).toEqual(['0.333', '0.333', '0.500', '0.500']);
    }
    all.forEach((one) => one.dispose());
  });

  test.each(['local-sgd', 'diloco'])('can also be trained with the strategy %s', async (strategy) => {
    const all = await members([5, 7], { strategy, batchSize: 2, epochs: 1, optimizer: 'sgd', learningRate: 0.1 });
    const { results } = await runGeneration(all);
    for (const result of results) expect(result).toMatchObject({ steps: 4, epochs: 1 });
    expect(new Set(all.map(({ rank }) => rank.stateHash())).size).toBe(1);
    all.forEach((one) => one.dispose());
  });

  test('learn from an error which rank has no samples', async () => {
    const divergent: TrainingTask = {
      ...shardOf(8, 4, 4),
      dataHash: () => Promise.resolve('ff'.repeat(8)),
      dataAdvice: 'look at it',
    };
    const all = [...(await members([4, 4])), await createMember('divergent', divergent, COUNTING_PLAN)];
    const { results } = await runGeneration(all);
    expect((results[2] as Error).message).toContain('differs from the data of the other ranks: look at it');
    all.forEach((one) => one.dispose());
  });
});
