/** Runs that look for a learning rate, on TensorFlow.js's CPU backend. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import type { TrainingTask } from '../../../src/engine/tasks/task.ts';
import { Trainer } from '../../../src/library/trainer.ts';
import type { RunResult } from '../../../src/protocol/runResult.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { train } from '../train.ts';
import { createMember, runGeneration, type Member } from '../worlds.ts';

const PLAN = { measure: 'learning-rate', optimizer: 'sgd', maxSteps: 24, batchSize: 2, hashEvery: 5 };

/**
 * A task whose loss becomes NaN. A weight grows with the learning rates. The loss falls until the
 * weight is above 0.5, and is then NaN. A buffer counts the passes.
 */
function taskThatBreaks(): TrainingTask {
  const weight = tf.variable(tf.scalar(0));
  const passes = tf.variable(tf.scalar(0), false);
  return {
    model: [weight, passes],
    ...{ trainSamples: 12, testSamples: 3, testBatch: 3, classifies: true },
    dataHash: () => Promise.resolve('00'.repeat(8)),
    dataAdvice: 'break again',
    withBatch: (indices, use) =>
      use(() => {
        passes.assign(passes.add(1));
        return weight.mul(-1).add(0.5).sqrt().mul(indices.length).asScalar();
      }),
    evaluate: () => Promise.reject(new Error('A range test must not evaluate samples.')),
    dispose: () => tf.dispose([weight, passes]),
  };
}

const createMembers = (count: number, fields: object = {}): Promise<Member[]> =>
  Promise.all(Array.from({ length: count }, (_, i) => createMember(`m${i}`, taskThatBreaks(), { ...PLAN, ...fields })));

const disposeAll = (members: readonly Member[]): void => members.forEach((member) => member.dispose());

describe('a range test', () => {
  test('finds the same rate for digits on 1 rank and on 4 ranks', async () => {
    const fields = { measure: 'learning-rate', maxSteps: 30, optimizer: 'adam' };
    const { results: one } = await train(1, { ...fields, batchSize: 32 });
    const { results: four, events } = await train(4, { ...fields, batchSize: 8 });
    for (const result of four) {
      expect(result.rateTest).toEqual(four[0]!.rateTest);
      expect(result).toMatchObject({ steps: one[0]!.steps, accuracy: null, valLoss: null });
      expect(new Set(result.stateHash).size).toBe(1);
    }
    const { suggested } = four[0]!.rateTest!;
    expect(suggested).toBe(one[0]!.rateTest!.suggested);
    expect(suggested).toBeGreaterThan(0.0005);
    expect(suggested).toBeLessThan(0.03);
    expect(events[0]!.some(({ type }) => type === 'evaluation')).toBe(false);
  });

  test('trains a small data set for more epochs if it needs more steps', async () => {
    const { results } = await train(2, { ...PLAN, batchSize: 8 }, { trainSize: 20 });
    expect(results[0]!.steps).toBeGreaterThan(18);
    expect(results[0]!.epochs).toBeGreaterThan(9);
  });

  test('ends at the same step on all ranks when the loss is NaN, and restores the model', async () => {
    const members = await createMembers(3);
    const before = members[0]!.values();
    const { results } = await runGeneration(members);
    const [first] = results as RunResult[];
    for (const result of results as RunResult[]) {
      expect(result).toMatchObject({ steps: first!.steps, rateTest: first!.rateTest });
      expect(result.losses).toHaveLength(first!.steps - 1);
      expect(result.losses.every(Number.isFinite)).toBe(true);
      expect(new Set(result.stateHash).size).toBe(1);
    }
    expect(first!.rateTest!.suggested).toBeGreaterThan(0.01);
    for (const member of members) expect(member.values()).toEqual(before);
    disposeAll(members);
  });

  test.each(['fp16', 'int8', 'powersgd', 'auto'])(
    'ends after the same step on all ranks with the codec %s',
    async (codec) => {
      const members = await createMembers(3, { codec });
      const { results } = await runGeneration(members);
      for (const result of results) expect(result).toMatchObject({ rateTest: (results[0] as RunResult).rateTest });
      expect((results[0] as RunResult).rateTest!.suggested).toBeGreaterThan(0.01);
      expect(new Set((results[0] as RunResult).stateHash).size).toBe(1);
      disposeAll(members);
    },
  );

  test('restores the model also on a rank that joins in the middle of the test', async () => {
    const members = await createMembers(3);
    const before = members[0]!.values();
    await runGeneration(members, { end: { rank: 2, step: 9, frame: 0 } });
    const late = await createMembers(1);
    const now = [...late, ...members.slice(0, 2)];
    const { results } = await runGeneration(now);
    for (const result of results) expect(result).toMatchObject({ rateTest: (results[0] as RunResult).rateTest });
    for (const member of now) expect(member.values()).toEqual(before);
    disposeAll([...members, ...late]);
  });

  test('has the same result if a rank is lost at any frame after its final step', async () => {
    const whole = await createMembers(3);
    const { results: ends } = await runGeneration(whole);
    const before = whole[0]!.values();
    const { steps } = ends[0] as RunResult;
    let redone = 0;
    for (let frame = 0; ; frame++) {
      const members = await createMembers(3);
      const { isBroken, results } = await runGeneration(members, { end: { rank: 2, step: steps - 1, frame } });
      const survivors = members.slice(0, 2);
      const { results: last } = isBroken ? await runGeneration(survivors) : { results };
      if (isBroken) redone += 1;
      for (const result of last) expect(result).toMatchObject({ steps, rateTest: (ends[0] as RunResult).rateTest });
      for (const member of isBroken ? survivors : members) expect(member.values()).toEqual(before);
      disposeAll(members);
      if (!isBroken) break;
    }
    expect(redone).toBeGreaterThan(10);
    disposeAll(whole);
  }, 60_000);

  test('fails if the loss is NaN before any rate was tested', async () => {
    const { results } = await train(1, { ...PLAN, batchSize: 4 }, { spoil: (inputs) => inputs.fill(NaN) }).catch(
      (error: unknown) => ({ results: [error] }),
    );
    expect(results[0]).toMatchObject({
      message: expect.stringMatching(/at the first step, before any learning rate was tried.*data/) as string,
    });
  });

  test('by Trainer leaves the weights of the model unchanged', async () => {
    const xs = tf.tensor2d(Array.from({ length: 64 }, (_, i) => [Math.sin(i), Math.cos(3 * i)]));
    const ys = xs.sum(1).greater(0).cast('float32');
    await runWorld(2, async (group) => {
      const model = tf.sequential({ layers: [tf.layers.dense({ units: 1, activation: 'sigmoid', inputShape: [2] })] });
      const before = await model.getWeights()[0]!.data();
      const trainer = new Trainer({ measure: 'learning-rate', optimizer: 'sgd', maxSteps: 40, batchSize: 32, group });
      const { rateTest } = await trainer.fit(model, { xs, ys }, { loss: 'meanSquaredError' });
      expect(rateTest!.suggested).toBeGreaterThan(0.1);
      if (group.rank === 0) expect(await model.getWeights()[0]!.data()).toEqual(before);
    });
  });

  test.each([
    [{ strategy: 'local-sgd' }, /a measurement requires the strategy ddp/],
    [{ maxSteps: 5 }, /maxSteps of 20 to 1000/],
    [{ maxSteps: null }, /maxSteps of 20 to 1000/],
  ])('is rejected with %o', (fields, message) => {
    expect(() => new Trainer({ measure: 'learning-rate', ...fields } as object)).toThrow(message);
  });
});
