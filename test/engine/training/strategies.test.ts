/** All strategies. Memory links, TensorFlow.js's CPU backend. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { Mesh } from '../../../src/collectives/mesh.ts';
import { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { initialTrainingProgress } from '../../../src/parallel/recovery/progress.ts';
import { createStrategy, type StrategyChoice } from '../../../src/parallel/strategies/index.ts';
import { createOptimizer } from '../../../src/optim/index.ts';
import { isReplicaStrategyName, STRATEGIES, STRATEGY_NAMES, type StrategyName } from '../../../src/spec/job.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { systemClock } from '../../../src/util/clock.ts';
import { createDeferred } from '../../../src/util/deferred.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { hashOfArrays } from '../../../src/util/hash.ts';
import { createRng } from '../../../src/util/rng.ts';
import { relative, train } from '../train.ts';

/** Creates a strategy that trains `model` with plain SGD in `group`. */
async function makeStrategy(
  strategy: StrategyChoice['strategy'],
  group: ProcessGroup,
  model: readonly tf.Variable[],
  {
    syncEvery = 4,
    staleness = 2,
    learningRate = 0.1,
    codec = 'fp32',
    clipNorm = null,
  }: Partial<Pick<StrategyChoice, 'syncEvery' | 'staleness' | 'codec' | 'clipNorm'>> & { learningRate?: number } = {},
) {
  const alone = new ProcessGroup(new Mesh({ rank: 0, worldSize: 1, generation: 0, links: new Map() }));
  const made = await createStrategy(
    {
      strategy,
      measure: null,
      syncEvery,
      outerLearningRate: null,
      staleness,
      codec,
      errorFeedback: true,
      shardOptimizer: false,
      clipNorm,
    },
    {
      ...{ model, group: alone, clock: systemClock, checkGradients: () => {}, onnote: () => {} },
      createOptimizer: (size) => createOptimizer('sgd', { learningRate }, size),
    },
  );
  if (made.elastic) await made.elastic.attach(group, initialTrainingProgress(), null);
  else await made.attach(group);
  return made;
}

/** The setting `syncEvery`, for strategies that have it. */
const periodOf = (strategy: StrategyName, syncEvery: number) =>
  STRATEGIES[strategy].settings.includes('syncEvery') ? { syncEvery } : {};

const ignore = (): void => {};

test.each(['ddp', 'parameter-server', 'async-parameter-server', 'local-sgd'] as const)(
  '%s clips large gradients, and sets the learning rate when it applies a step',
  async (strategy) => {
    await runWorld(1, async (group) => {
      const weights = tf.variable(tf.tensor1d([0, 0]));
      const made = await makeStrategy(strategy, group, [weights], { clipNorm: 1, syncEvery: 1 });
      const step = (scale: number) =>
        made.step(
          () => tf.tidy(() => weights.mul(tf.tensor1d([3 * scale, 4 * scale])).sum<tf.Scalar>()),
          { samples: 1, learningRate: 0.5 },
          ignore,
        );
      await step(1);
      expect([...(await weights.data())].map((value) => Number(value.toFixed(5)))).toEqual([-0.3, -0.4]);
      await step(0.1);
      expect([...(await weights.data())].map((value) => Number(value.toFixed(5)))).toEqual([-0.45, -0.6]);
      made.dispose();
      weights.dispose();
    });
  },
);

test('ddp keeps the gradient from before clipping for a repeated update, and a failed step does not change the learning rate', async () => {
  await runWorld(1, async (group) => {
    const weights = tf.variable(tf.tensor1d([0, 0]));
    const made = await makeStrategy('ddp', group, [weights], { clipNorm: 1 });
    const before = hashOfArrays(made.state());
    const failing = made.step(
      () => {
        throw new Error('no loss');
      },
      { samples: 1, learningRate: 0.25 },
      ignore,
    );
    await expect(failing).rejects.toThrow('no loss');
    expect(hashOfArrays(made.state())).toBe(before);
    const loss = () => tf.tidy(() => weights.mul(tf.tensor1d([3, 4])).sum<tf.Scalar>());
    await made.step(loss, { samples: 1, learningRate: 0.5 }, ignore);
    const { lastGradient, learningRate } = made.elastic!.repeater!;
    expect([[...lastGradient!], learningRate]).toEqual([[3, 4], 0.5]);
    const parameters = await weights.data();
    made.elastic!.repeater!.repeat(lastGradient!.slice(), 0.5);
    const repeated = [...(await weights.data())];
    expect(repeated).toEqual([...parameters].map((value) => Math.fround(2 * value)));
    made.dispose();
    weights.dispose();
  });
});

const SYNCHRONOUS = ['ddp', 'parameter-server'] as const;

test.each(
  STRATEGY_NAMES.filter(isReplicaStrategyName).flatMap((strategy) =>
    (['fp32', 'int8'] as const)
      .filter((codec) => STRATEGIES[strategy].codecs.includes(codec))
      .map((codec) => [strategy, codec] as const),
  ),
)('%s with %s reports that a rank has computed before this rank waits for another one', async (strategy, codec) => {
  const computed = createDeferred();
  const losses = await runWorld(2, async (group) => {
    const weights = tf.variable(tf.zeros([10]));
    const made = await makeStrategy(strategy, group, [weights], { syncEvery: 1, codec });
    if (group.rank === 1) await computed.promise;
    const options = { samples: 1, totalSamples: 2, oncomputed: () => computed.resolve() };
    const { loss } = await made.step(() => weights.square().sum().asScalar(), options, ignore);
    made.dispose();
    weights.dispose();
    return loss;
  });
  expect(losses).toEqual([0, 0]);
});

describe('diloco with int8', () => {
  test('has at most a fifth more rounding error if its last exchange follows one step instead of twenty', async () => {
    const targets = [0, 1].map((rank) => {
      const rng = createRng(rank + 5);
      return Float32Array.from({ length: 1000 }, () => (rng.next() - 0.5) * Math.exp(6 * rng.next() - 3));
    });
    /** Returns the parameters after `steps` steps. Each rank's loss has a target of its own. */
    const trained = async (codec: 'fp32' | 'int8', steps: number): Promise<Float32Array> => {
      const [parameters] = await runWorld(2, async (group) => {
        const weights = tf.variable(tf.zeros([1000]));
        const strategy = await makeStrategy('diloco', group, [weights], { syncEvery: 20, learningRate: 0.02, codec });
        const pass = (): tf.Scalar => weights.sub(tf.tensor1d(targets[group.rank]!)).square().sum().mul(16).asScalar();
        for (let step = 0; step < steps; step++) await strategy.step(pass, { samples: 32, reduction: 'sum' }, ignore);
        await strategy.synchronize();
        return weights.dataSync() as Float32Array;
      });
      return parameters!;
    };
    const roundedBy = async (steps: number): Promise<number> => {
      const [plain, encoded] = [await trained('fp32', steps), await trained('int8', steps)];
      return Math.hypot(...plain.map((value, i) => value - encoded[i]!));
    };
    expect(await roundedBy(41)).toBeLessThan(1.2 * (await roundedBy(40)));
  });
});

describe('strategies', () => {
  test.each(SYNCHRONOUS)('%s on four ranks has the losses of one rank with the whole batch', async (strategy) => {
    const { results: one } = await train(1, { batchSize: 32, maxSteps: 8 });
    const { results: four } = await train(4, { batchSize: 8, maxSteps: 8, strategy });
    for (const [step, loss] of one[0]!.losses.entries()) {
      expect(relative(four[0]!.losses[step]!, loss)).toBeLessThan(1e-5);
    }
  });

  test.each(STRATEGY_NAMES.filter(isReplicaStrategyName))(
    '%s ends with the same parameters on every rank, and the loss falls',
    async (strategy) => {
      const { results } = await train(3, { batchSize: 8, maxSteps: 23, ...periodOf(strategy, 5), strategy });
      for (const { stateHash, losses } of results) {
        expect(new Set(stateHash).size).toBe(1);
        expect(losses).toHaveLength(23);
        expect(losses).toEqual(results[0]!.losses);
        expect(losses.at(-1)!).toBeLessThan(losses[0]! * 0.8);
      }
    },
  );

  test.each(STRATEGY_NAMES.filter(isReplicaStrategyName))(
    '%s trains even if some ranks have no samples in the last step of an epoch',
    async (strategy) => {
      const { results } = await train(
        4,
        { batchSize: 4, epochs: 2, ...periodOf(strategy, 3), strategy },
        { trainSize: 17 },
      );
      expect(new Set(results[0]!.stateHash).size).toBe(1);
      expect(results[0]!.steps).toBe(4);
    },
  );

  test.each([
    ['parameter-server', 4],
    // 5 steps: all ranks wait for each other after the fourth step and at the end. Each time they
    // send as many bytes as in a step.
    ['async-parameter-server', 6],
  ] as const)('rank 0 sends or receives all bytes of a parameter server: %s', async (strategy, exchanges) => {
    const n = 4;
    const maxSteps = strategy === 'parameter-server' ? 4 : 5;
    const { results } = await train(n, { batchSize: 2, maxSteps, hashEvery: 2, ...periodOf(strategy, 4), strategy });
    const { bytesSentPerRank, bytesReceivedPerRank, gradientBytes } = results[0]!;
    const perExchange = (bytes: number) => bytes / exchanges / gradientBytes;
    for (const [sent, ...others] of [bytesSentPerRank, bytesReceivedPerRank].map((ranks) => ranks.map(perExchange))) {
      expect(sent! / (n - 1)).toBeCloseTo(1, 2);
      for (const bytes of others) expect(bytes).toBeCloseTo(1, 2);
    }
  });

  test.each(['local-sgd', 'diloco'])(
    '%s sends as many bytes per period as ddp per step, also in an incomplete period',
    async (strategy) => {
      const n = 4;
      const { results } = await train(n, { batchSize: 2, maxSteps: 14, syncEvery: 6, strategy });
      const { bytesSentPerRank, bytesReceivedPerRank, gradientBytes } = results[0]!;
      const theory = (3 * 2 * (n - 1) * gradientBytes) / n;
      for (const bytes of [...bytesSentPerRank, ...bytesReceivedPerRank]) expect(bytes / theory).toBeCloseTo(1, 2);
    },
  );

  test('local-sgd with plain SGD equals ddp if ranks average after each step', async () => {
    const fields = { batchSize: 8, maxSteps: 6, optimizer: 'sgd', learningRate: 0.05 };
    const { results: ring } = await train(2, { ...fields, strategy: 'ddp' });
    const { results: local } = await train(2, { ...fields, strategy: 'local-sgd', syncEvery: 1 });
    for (const [step, loss] of ring[0]!.losses.entries()) {
      expect(relative(local[0]!.losses[step]!, loss)).toBeLessThan(1e-5);
    }
  });

  test('the outer optimizer of diloco has Nesterov momentum', async () => {
    const weights = await runWorld(2, async (group) => {
      const variable = tf.variable(tf.tensor1d([1, 2]));
      const strategy = await makeStrategy('diloco', group, [variable], {
        syncEvery: 1,
        staleness: 0,
        learningRate: 0.5,
      });
      // The loss of rank r is (r + 1) w_0 + w_1, so the mean gradient of two ranks is (1.5, 1).
      const loss = () => tf.tidy(() => variable.mul(tf.tensor1d([group.rank + 1, 1])).sum<tf.Scalar>());
      await strategy.step(loss, { samples: 1 }, ignore);
      strategy.dispose();
      return Array.from(await variable.data());
    });
    // The outer gradient is (0.75, 0.5). The first update with momentum 0.9 and learning rate 0.7
    // is 0.7 (1 + 0.9) times the gradient.
    for (const [first, second] of weights) {
      expect(first).toBeCloseTo(1 - 1.33 * 0.75, 6);
      expect(second).toBeCloseTo(2 - 1.33 * 0.5, 6);
    }
  });

  test.each(['local-sgd'] as const)('%s weights ranks by their samples since the last exchange', async (strategy) => {
    // Rank 2 has no samples after two steps, and rank 1 has no more samples in the second period.
    const samples = [
      [3, 3, 3, 3],
      [2, 2, 0, 0],
      [1, 0, 0, 0],
    ];
    const values = await runWorld(3, async (group) => {
      const variable = tf.variable(tf.tensor1d([1]));
      const made = await makeStrategy(strategy, group, [variable], { syncEvery: 2, learningRate: 0.5 });
      const seen: number[] = [];
      for (const count of samples[group.rank]!) {
        await made.step(() => tf.tidy(() => variable.mul(group.rank + 1).sum<tf.Scalar>()), { samples: count }, ignore);
        if (made.isSynchronized) seen.push((await variable.data())[0]!);
      }
      made.dispose();
      return seen;
    });
    // In the first period ranks reach 0, -1 and -0.5, with 6, 4 and 1 of 11 samples. In the
    // second period only rank 0 continues.
    const first = (-1 * 4 - 0.5 * 1) / 11;
    for (const [i, expected] of [first, first - 1].entries()) {
      for (const seen of values) expect(seen[i]).toBeCloseTo(expected, 6);
      expect(new Set(values.map((seen) => seen[i])).size).toBe(1);
    }
  });

  test.each(STRATEGY_NAMES.filter(isReplicaStrategyName))(
    '%s sends buffers that a pass has changed, and sends frozen weights only once',
    async (strategy) => {
      const seen = await runWorld(3, async (group) => {
        const { rank } = group;
        const [weight, average] = [tf.variable(tf.scalar(1)), tf.variable(tf.scalar(rank), false)];
        const frozen = tf.variable(tf.ones([1000]).mul(rank), false);
        const made = await makeStrategy(strategy, group, [weight, average, frozen], { syncEvery: 2 });
        expect([average, frozen].map((buffer) => buffer.dataSync()[0])).toEqual([0, 0]);
        const sentBefore = group.bytesSent;
        for (let step = 1; step <= 4; step++) {
          // Rank 0 changes nothing in the last two steps.
          const changes = rank > 0 || step <= 2;
          const loss = () => {
            if (changes) average.assign(tf.scalar(10 * step + rank));
            return weight.square().asScalar();
          };
          await made.step(() => tf.tidy(loss), { samples: 1 }, ignore);
        }
        expect(made.isSynchronized).toBe(true);
        expect(group.bytesSent - sentBefore).toBeLessThan(frozen.size * Float32Array.BYTES_PER_ELEMENT);
        made.dispose();
        return average.dataSync()[0];
      });
      expect(seen).toEqual([20, 20, 20]);
    },
  );

  test.each(['local-sgd', 'parameter-server'] as const)(
    '%s sends the buffers of a rank with samples, even if rank 0 has none',
    async (strategy) => {
      const seen = await runWorld(2, async (group) => {
        const [weight, average] = [tf.variable(tf.scalar(1)), tf.variable(tf.scalar(0), false)];
        const made = await makeStrategy(strategy, group, [weight, average], { syncEvery: 2 });
        const loss = () => {
          average.assign(average.add(1));
          return weight.square().asScalar();
        };
        for (let step = 0; step < 4; step++) await made.step(() => tf.tidy(loss), { samples: group.rank }, ignore);
        made.dispose();
        return average.dataSync()[0];
      });
      expect(seen).toEqual([4, 4]);
    },
  );

  test.each(STRATEGY_NAMES.filter(isReplicaStrategyName))(
    '%s rejects models and samples that it cannot train, on every rank',
    async (strategy) => {
      await runWorld(2, async (group) => {
        const weight = tf.variable(tf.scalar(1));
        const counter = tf.variable(tf.scalar(1, 'int32'), false);
        const frozen = tf.variable(tf.scalar(1), false);
        await expect(makeStrategy(strategy, group, [weight, counter])).rejects.toThrow(/is int32/);
        await expect(makeStrategy(strategy, group, [frozen])).rejects.toThrow(UsageError);
      });
    },
  );

  test('an asynchronous server keeps every rank within the staleness bound', async () => {
    const staleness = 2;
    const steps = [0, 0, 0];
    await runWorld(3, async (group) => {
      const variable = tf.variable(tf.scalar(0));
      const strategy = await makeStrategy('async-parameter-server', group, [variable], { syncEvery: 100, staleness });
      for (let step = 0; step < 12; step++) {
        // The last rank is slow.
        if (group.rank === 2) await new Promise((resolve) => setTimeout(resolve, 3));
        await strategy.step(() => tf.tidy(() => variable.square().asScalar()), { samples: 1 }, ignore);
        steps[group.rank]! += 1;
        // The steps are compared after the answer has arrived. By then the slow rank may have taken
        // one more step.
        expect(steps[group.rank]! - Math.min(...steps)).toBeLessThanOrEqual(staleness + 1);
        expect(strategy.isSynchronized).toBe(false);
      }
      await strategy.synchronize();
      expect(strategy.isSynchronized).toBe(true);
      strategy.dispose();
    });
  });

  test('an asynchronous server that synchronizes early begins a new period', async () => {
    const agreed = await runWorld(3, async (group) => {
      const variable = tf.variable(tf.scalar(1));
      const strategy = await makeStrategy('async-parameter-server', group, [variable], { syncEvery: 4, staleness: 1 });
      const step = () => strategy.step(() => tf.tidy(() => variable.square().asScalar()), { samples: 1 }, ignore);
      for (let i = 0; i < 3; i++) await step();
      await strategy.synchronize();
      const synchronized: boolean[] = [];
      for (let i = 0; i < 4; i++) {
        await step();
        synchronized.push(strategy.isSynchronized);
      }
      const values = await group.allGather(Float32Array.of((await variable.data())[0]!));
      strategy.dispose();
      return { synchronized, values: values.map(([value]) => value) };
    });
    for (const { synchronized, values } of agreed) {
      expect(synchronized).toEqual([false, false, false, true]);
      expect(new Set(values).size).toBe(1);
    }
  });

  test.each(STRATEGY_NAMES.filter(isReplicaStrategyName))(
    '%s fails on every rank when one rank aborts between steps',
    async (strategy) => {
      const failures: unknown[] = [];
      await runWorld(3, async (group) => {
        const variable = tf.variable(tf.scalar(0));
        const made = await makeStrategy(strategy, group, [variable], { syncEvery: 4, staleness: 2 });
        try {
          for (let step = 0; step < 12; step++) {
            if (group.rank === 1 && step === 2) group.abort(new Error('gave up'));
            await made.step(() => tf.tidy(() => variable.square().asScalar()), { samples: 1 }, ignore);
          }
        } catch (error) {
          failures.push(error);
        }
        made.dispose();
      });
      expect(failures).toHaveLength(3);
      for (const error of failures) expect((error as Error).message).toBe('gave up');
    },
  );

  test.each(STRATEGY_NAMES.filter(isReplicaStrategyName))('%s leaks no tensor in 100 steps', async (strategy) => {
    const counts: number[] = [];
    const before = tf.memory().numTensors;
    const { events } = await train(
      2,
      { batchSize: 1, maxSteps: 100, ...periodOf(strategy, 7), hashEvery: 1000, strategy },
      { onStep: () => counts.push(tf.memory().numTensors) },
    );
    expect(events[0]!.filter(({ type }) => type === 'step')).toHaveLength(100);
    // Another rank of this process may be in a step or an evaluation. The lowest count is the count
    // outside of both. A leak would also increase the lowest count.
    expect(Math.min(...counts.slice(-20))).toBeLessThanOrEqual(Math.min(...counts.slice(2, 50)));
    expect(tf.memory().numTensors).toBe(before);
  });
});
