import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import type { LocalSteps } from '../../../src/parallel/strategies/localSteps.ts';
import { initialTrainingProgress } from '../../../src/parallel/recovery/progress.ts';
import { SparseOuterMean } from '../../../src/parallel/strategies/sparseMean.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { createLocalSteps } from '../localSteps.ts';

const SIZE = 500;
const ENTRIES = 256;

interface Trained {
  own: Float32Array;
  shared: Float32Array;
}

/**
 * Trains towards a target of this rank, and exchanges after every second step.
 *
 * @param then called after the steps.
 */
async function train(
  worldSize: number,
  steps: number,
  then: (strategy: LocalSteps) => unknown = () => {},
): Promise<Trained[]> {
  return runWorld(worldSize, async (group) => {
    const parameters = tf.variable(tf.zeros([SIZE]));
    const target = tf.range(0, SIZE).mul(group.rank + 1);
    const strategy = await createLocalSteps([parameters], {
      ...{ learningRate: 0.1, outerLearningRate: 1, syncEvery: 2 },
      createMean: (size) => new SparseOuterMean(size, ENTRIES),
    });
    await strategy.attach(group, initialTrainingProgress(), null);
    const loss = () => tf.tidy(() => parameters.sub(target).square().sum().asScalar());
    for (let step = 0; step < steps; step++) await strategy.step(loss, { samples: 1 }, () => {});
    await then(strategy);
    const [shared] = strategy.state() as [Float32Array];
    const trained = { own: parameters.dataSync().slice() as Float32Array, shared: shared.slice() };
    strategy.dispose();
    return trained;
  });
}

describe('local steps with a sparse mean', () => {
  test('continue from everything that a rank has learned, even if it was not sent', async () => {
    const [rank] = await train(1, 10);
    // Training alone, without exchanges: p := p - 0.1 * 2 (p - target).
    for (let i = 0; i < SIZE; i++) expect(rank!.own[i]).toBeCloseTo(i * (1 - 0.8 ** 10), 2);
    expect(rank!.shared).not.toEqual(rank!.own);
  });

  test("return to a rank's own state after the latest exchange when the group ends", async () => {
    const atExchange = await train(3, 10);
    const later = await train(3, 11);
    const rolledBack = await train(3, 11, (strategy) => strategy.rollBack());
    expect(later).not.toEqual(atExchange);
    expect(rolledBack).toEqual(atExchange);
  });

  test('have equal states on all ranks after an exchange, and equal parameters at the end', async () => {
    const running = await train(3, 10);
    expect(running[1]!.shared).toEqual(running[0]!.shared);
    expect(running[1]!.own).not.toEqual(running[0]!.own);
    for (const { own, shared } of await train(3, 10, (strategy) => strategy.synchronize())) {
      expect(shared).toEqual(running[0]!.shared);
      expect(own).toEqual(shared);
    }
  });
});
