/** What ranks exchange at the end of a run of local steps. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import type { OuterStepMean } from '../../src/parallel/strategies/outerMean.ts';
import { initialTrainingProgress } from '../../src/parallel/recovery/progress.ts';
import { runWorld } from '../../src/testing/index.ts';
import { PeerGoneError } from '../../src/util/errors.ts';
import { createLocalSteps } from './localSteps.ts';

const FRAGMENTS = 4;
const STEPS = 7;

/** The mean of one rank. Its next exchange fails when `left` is 0. */
class FailingMean implements OuterStepMean {
  readonly unsent = null;
  left = Infinity;
  average(): Promise<void> {
    return this.left-- === 0 ? Promise.reject(new PeerGoneError('The other rank has gone.')) : Promise.resolve();
  }
  commit(): void {}
  reset(): void {}
}

/**
 * Trains alone with fragments, and synchronizes; if that fails after `exchanges` exchanges,
 * synchronizes again.
 */
async function train(exchanges: number): Promise<{ failed: boolean; parameters: number[]; losses: number[] }> {
  const [end] = await runWorld(1, async (group) => {
    const mean = new FailingMean();
    const parameters = tf.variable(tf.zeros([2 * FRAGMENTS]));
    const strategy = await createLocalSteps([parameters], {
      ...{ learningRate: 0.1, outerLearningRate: 0.7, syncEvery: FRAGMENTS },
      streaming: { fragments: FRAGMENTS, delay: 0, mixing: 0.5 },
      createMean: () => mean,
    });
    const progress = initialTrainingProgress();
    await strategy.attach(group, progress, null);
    const loss = () => tf.tidy(() => parameters.sub(1).square().sum().asScalar());
    for (let step = 0; step < STEPS; step++) {
      await strategy.step(loss, { samples: 1 }, () => (progress.step += 1));
    }
    mean.left = exchanges;
    const failed = await strategy.synchronize().then(
      () => false,
      () => true,
    );
    if (failed) {
      strategy.rollBack();
      await strategy.attach(group, progress, null);
      await strategy.synchronize();
    }
    const result = { failed, parameters: Array.from(parameters.dataSync()), losses: [...progress.losses] };
    strategy.dispose();
    return result;
  });
  return end!;
}

describe('an exchange at the end of a run', () => {
  test('is repeated from the same state if it fails after some fragments', async () => {
    const undisturbed = await train(Infinity);
    expect(undisturbed).toMatchObject({ failed: false });
    expect(undisturbed.losses).toHaveLength(STEPS);
    // The last step has exchanged one fragment.
    for (let exchanges = 0; exchanges < FRAGMENTS - 1; exchanges++) {
      expect(await train(exchanges)).toEqual({ ...undisturbed, failed: true });
    }
  });
});
