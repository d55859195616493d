/**
 * Streaming DiLoCo against the fixtures that torchft publishes
 * (https://github.com/meta-pytorch/torchft, diloco_regression_test.py and its JSON files): 2
 * replicas with a gradient of 2, inner SGD with learning rate 1, outer SGD with learning rate 2, 2
 * fragments, and an exchange of each fragment every 6 steps.
 */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { initialTrainingProgress } from '../../src/parallel/recovery/progress.ts';
import type { FragmentExchangeFacts } from '../../src/spec/strategies.ts';
import type { LocalSteps } from '../../src/parallel/strategies/localSteps.ts';
import { DenseOuterMean } from '../../src/parallel/strategies/outerMean.ts';
import { runWorld } from '../../src/testing/index.ts';
import { UsageError } from '../../src/util/errors.ts';
import { createLocalSteps } from './localSteps.ts';

const SYNC_EVERY = 6;

function create(model: tf.Variable[], streaming: FragmentExchangeFacts): Promise<LocalSteps> {
  return createLocalSteps(model, {
    ...{ learningRate: 1, outerLearningRate: 2, syncEvery: SYNC_EVERY, streaming },
    createMean: (size) => new DenseOuterMean(size, { codec: 'fp32', errorFeedback: false }),
  });
}

/** Returns both parameters of rank 0 after each step. Fragment 0 has the first. */
async function trajectory(steps: number, delay: number, mixing: number): Promise<[number, number][]> {
  const [first] = await runWorld(2, async (group) => {
    const parameters = [tf.variable(tf.scalar(1)), tf.variable(tf.scalar(1))];
    const strategy = await create(parameters, { fragments: 2, delay, mixing });
    await strategy.attach(group, initialTrainingProgress(), null);
    const seen: [number, number][] = [];
    const loss = () => tf.tidy(() => parameters[0]!.add(parameters[1]!).mul(2).asScalar());
    for (let step = 0; step < steps; step++) {
      await strategy.step(loss, { samples: 1 }, () => {});
      // The flat arrays have the last parameter first.
      seen.push([parameters[1]!.dataSync()[0]!, parameters[0]!.dataSync()[0]!]);
    }
    strategy.dispose();
    return seen;
  });
  return first!;
}

describe('streaming diloco', () => {
  test.each([
    [0, 0, -11],
    [0, 0.5, -8],
    [0, 1, -5],
    [1, 0, -7],
    [1, 0.5, -6],
  ])('with delay %i and mixing %f has torchft’s value of fragment 0 after step 3', async (delay, mixing, value) => {
    const seen = await trajectory(3, delay, mixing);
    expect(seen[2]).toEqual([value, -5]);
  });

  test('exchanges fragment 1 for the first time after step 6', async () => {
    const seen = await trajectory(6, 0, 0);
    expect(seen[4]![1]).toBe(-9);
    expect(seen[5]![1]).toBe(-23);
  });

  test('rejects fragments whose exchanges would overlap', async () => {
    const model = [tf.variable(tf.scalar(1))];
    await expect(create(model, { fragments: 4, delay: 1, mixing: 0 })).rejects.toThrow(UsageError);
    await expect(create(model, { fragments: 4, delay: 1, mixing: 0 })).rejects.toThrow(/at least 8 steps/);
  });
});
