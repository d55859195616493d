import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { insteadOfRing, reportsOwnLossOnly } from '../../../src/app/state/strategies.ts';
import { createOptimizer } from '../../../src/optim/index.ts';
import { createStrategy } from '../../../src/parallel/strategies/index.ts';
import { parseJob, STRATEGY_NAMES } from '../../../src/spec/job.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { systemClock } from '../../../src/util/clock.ts';

const MIB = 1024 ** 2;
const RING = parseJob({});

describe('the diagram of a room', () => {
  test('is a ring if there are few ranks, or while the buckets are unknown', () => {
    expect(insteadOfRing(RING, 4, [64, 36_000])).toBeNull();
    expect(insteadOfRing(RING, 20, null)).toBeNull();
  });

  test('is not a ring if many ranks have small buckets, and the page explains why', () => {
    const instead = insteadOfRing(RING, 20, [65_536, 36_000]);
    expect(instead).toMatchObject({
      lines: 'none',
      words: expect.stringMatching(/ring of 20.*38 steps.*pairs or groups/),
    });
  });

  test('is a ring if at least one bucket uses the ring', () => {
    expect(insteadOfRing(RING, 12, [65_536])).not.toBeNull();
    expect(insteadOfRing(RING, 12, [65_536, 4 * MIB])).toBeNull();
    expect(insteadOfRing(RING, 32, [4 * MIB])).not.toBeNull();
    expect(insteadOfRing(RING, 32, [16 * MIB])).toBeNull();
  });

  test.each(['parameter-server', 'async-parameter-server', 'data-parallel'])('is a star for %s', (strategy) => {
    const instead = insteadOfRing(parseJob({ strategy }), 3, [MIB]);
    expect(instead).toMatchObject({
      lines: 'star',
      words: expect.stringMatching(/to rank 0, which returns parameters/),
    });
  });

  test.each(['local-sgd', 'diloco'])('has a text that says how often ranks exchange data with %s', (strategy) => {
    const words = (syncEvery: number | null) => insteadOfRing(parseJob({ strategy, syncEvery }), 3, [MIB])?.words;
    expect(words(null)).toMatch(/from time to time/);
    expect(words(1)).toMatch(/after every step/);
    expect(words(8)).toMatch(/every 8 steps/);
  });
});

test.each(STRATEGY_NAMES)(
  'reportsOwnLossOnly is true for %s exactly if the strategy does not report the losses of all ranks',
  async (strategy) => {
    const job = parseJob({ strategy });
    const reportsAll = await runWorld(2, async (group) => {
      const variable = tf.variable(tf.scalar(0));
      const made = await createStrategy(job, {
        model: [variable],
        group,
        clock: systemClock,
        checkGradients: () => {},
        createOptimizer: (size) => createOptimizer('sgd', { learningRate: 1 }, size),
        createOuterOptimizer: (size) => createOptimizer('sgd', { learningRate: 1 }, size),
      });
      made.dispose();
      return made.reportsAllRanks;
    });
    expect(reportsOwnLossOnly(job, 2)).toBe(!reportsAll[0]);
    expect(reportsOwnLossOnly(job, 1)).toBe(false);
  },
);
