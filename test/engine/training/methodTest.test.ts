/** Runs that compare methods, on TensorFlow.js's CPU backend. */
import { setTimeout } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { Trainer } from '../../../src/library/trainer.ts';
import { RunResultSchema } from '../../../src/protocol/runResult.ts';
import { LEARNING_METHOD_NAMES } from '../../../src/spec/methods.ts';
import * as v from 'valibot';
import { systemClock } from '../../../src/util/clock.ts';
import { train } from '../train.ts';

describe('a comparison of methods', () => {
  test('has the same result on every rank, and leaves the model unchanged', async () => {
    const untrained: string[] = [];
    const { results, events } = await train(
      3,
      { measure: 'methods', batchSize: 4, maxSteps: 1000 },
      {
        tamper: (replica) => untrained.push(replica.stateHash()),
      },
    );
    const [first] = results;
    expect(first!.methods!.costs.map(({ method }) => method)).toEqual([...LEARNING_METHOD_NAMES]);
    expect(first!.methods!.latencyMs).toBeGreaterThan(0);
    expect(first!.methods!.bytesPerMs).toBeGreaterThan(0);
    for (const result of results) {
      expect(v.is(RunResultSchema, result)).toBe(true);
      expect(result).toMatchObject({ methods: first!.methods!, steps: 20, accuracy: null, valLoss: null });
      expect(result.stateHash).toEqual(untrained);
    }
    expect(events[0]!.some(({ type }) => type === 'evaluation')).toBe(false);
  });

  test('works on a single rank', async () => {
    const { results } = await train(1, { measure: 'methods', batchSize: 4 });
    expect(results[0]!.methods).toMatchObject({ bytesPerMs: null, best: 'ddp' });
  });

  test('takes all its steps even if they use more samples than the data set has', async () => {
    const { results } = await train(2, { measure: 'methods', batchSize: 8 }, { trainSize: 20 });
    expect(results[0]!.steps).toBe(20);
  });

  test('excludes its first steps, which may take longer, from the times', async () => {
    let reads = 0;
    let lateMs = 0;
    const { results, events } = await train(
      1,
      { measure: 'methods', batchSize: 4 },
      {
        clock: { ...systemClock, now: () => systemClock.now() + lateMs },
        spoil: () => (lateMs += reads++ < 12 ? 10_000 : 0),
      },
    );
    const slow = events[0]!.filter((event) => event.type === 'step' && event.ms.total >= 10_000);
    expect(slow).toHaveLength(10);
    expect(results[0]!.methods!.ownMs).toBeLessThan(1000);
  });

  test('begins the timed steps on all ranks together', async () => {
    const taken: string[] = [];
    await train(
      2,
      { measure: 'methods', batchSize: 4 },
      {
        onStep: async (rank, step) => {
          taken.push(`rank ${rank}, step ${step}`);
          if (rank === 0 && step < 10) await setTimeout(20);
        },
      },
    );
    expect(taken).toContain('rank 0, step 9');
    expect(taken.indexOf('rank 0, step 9')).toBeLessThan(taken.indexOf('rank 1, step 10'));
  });

  test('is rejected by Trainer', () => {
    expect(() => new Trainer({ measure: 'methods' })).toThrow(/cannot measure methods/);
  });
});
