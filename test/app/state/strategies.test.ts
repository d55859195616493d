import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { runPictureOfJob, reportsOwnLossOnly } from '../../../src/app/state/strategies.ts';
import { createOptimizer } from '../../../src/optim/index.ts';
import { createStrategy } from '../../../src/parallel/strategies/index.ts';
import { isReplicaStrategyName, parseJob, STRATEGY_NAMES } from '../../../src/spec/job.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { systemClock } from '../../../src/util/clock.ts';

const MIB = 1024 ** 2;
const AUTO = parseJob({});

const drawn = (algorithm: string, n: number) => runPictureOfJob(parseJob({ algorithm }), n, null, null);

describe('the picture of a room', () => {
  test('shows the job’s algorithm, or the ring if the ranks cannot run this algorithm', () => {
    expect(drawn('ring', 64)).toBe('ring');
    expect(drawn('two-level', 12)).toBe('two-level');
    expect(drawn('two-level', 7)).toBe('ring');
    expect(drawn('doubling', 7)).toBe('doubling');
  });

  test('shows for auto the algorithm in use; until it is known, the algorithm for the largest bucket', () => {
    expect(runPictureOfJob(AUTO, 4, null, [64, 36_000])).toBe('ring');
    expect(runPictureOfJob(AUTO, 20, null, null)).toBe('ring');
    expect(runPictureOfJob(AUTO, 32, null, [36_000, 4 * MIB])).toBe('two-level');
    expect(runPictureOfJob(AUTO, 32, null, [36_000, 16 * MIB])).toBe('ring');
    expect(runPictureOfJob(AUTO, 32, 'halving-doubling', [36_000, 16 * MIB])).toBe('halving-doubling');
    expect(runPictureOfJob(AUTO, 1, 'none', [36_000])).toBe('ring');
  });

  test('shows no all-reduce of gradients with PowerSGD', () => {
    expect(runPictureOfJob(parseJob({ codec: 'powersgd' }), 4, 'ring', [MIB])).toMatchObject({ lines: 'none' });
  });

  test.each(['parameter-server', 'async-parameter-server'])('is a star for %s', (strategy) => {
    const instead = runPictureOfJob(parseJob({ strategy }), 3, null, [MIB]);
    expect(instead).toMatchObject({
      lines: 'star',
      words: expect.stringMatching(/to rank 0, which returns parameters/),
    });
  });

  test.each(['local-sgd', 'diloco'])('has a text that says how often ranks exchange data with %s', (strategy) => {
    const words = (syncEvery: number | null) => {
      const picture = runPictureOfJob(parseJob({ strategy, syncEvery }), 3, null, [MIB]);
      return typeof picture === 'string' ? picture : picture.words;
    };
    expect(words(null)).toMatch(/from time to time/);
    expect(words(1)).toMatch(/after every step/);
    expect(words(8)).toMatch(/every 8 steps/);
  });
});

test.each(STRATEGY_NAMES.filter(isReplicaStrategyName))(
  'reportsOwnLossOnly is true for %s on two ranks exactly if a rank does not learn all losses, and false on one rank',
  async (strategy) => {
    const job = parseJob({ strategy });
    const reportsAll = await runWorld(2, async (group) => {
      const variable = tf.variable(tf.scalar(0));
      const made = await createStrategy(job, {
        model: [variable],
        group,
        clock: systemClock,
        checkGradients: () => {},
        onnote: () => {},
        createOptimizer: (size) => createOptimizer('sgd', { learningRate: 1 }, size),
      });
      made.dispose();
      return made.reportsAllRanks;
    });
    expect(reportsOwnLossOnly(job, 2)).toBe(!reportsAll[0]);
    expect(reportsOwnLossOnly(job, 1)).toBe(false);
  },
);
