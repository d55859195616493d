import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import type { Optimizer } from '../../../src/optim/optimizer.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { UsageError } from '../../../src/util/errors.ts';
import { line, meanSquare, mlp, relativeDifference, samplesOf, weightsOf } from '../models.ts';

const STEPS = 10;
const RANKS = 2;
const BATCH = 8;

describe('step of DDP with an optimizer of TensorFlow.js', () => {
  test.each([
    ['sgd', () => tf.train.sgd(0.05)],
    ['momentum', () => tf.train.momentum(0.02, 0.9, true)],
    ['adagrad', () => tf.train.adagrad(0.05)],
    ['adadelta', () => tf.train.adadelta(0.05)],
    ['adam', () => tf.train.adam(0.01)],
    ['adamax', () => tf.train.adamax(0.01)],
    ['rmsprop', () => tf.train.rmsprop(0.01, 0.9, 0.5)],
  ])('trains two ranks as TensorFlow.js trains one rank with all samples: %s', async (_, create) => {
    const single = mlp(3);
    const optimizer = create();
    for (let step = 0; step < STEPS; step++) {
      const all = tf.concat(Array.from({ length: RANKS }, (__, rank) => samplesOf(rank, step, BATCH)));
      optimizer.minimize(() => meanSquare(single.apply(all, { training: true }) as tf.Tensor));
    }
    const expected = weightsOf(single);
    single.dispose();

    const states = await runWorld(RANKS, async (group) => {
      const model = mlp(3);
      const ddp = await DistributedDataParallel.create(model, group);
      const mine = create();
      for (let step = 0; step < STEPS; step++) {
        const inputs = samplesOf(group.rank, step, BATCH);
        await ddp.backward({ inputs, loss: meanSquare }, { samples: BATCH });
        ddp.step(mine);
      }
      expect(relativeDifference(weightsOf(model), expected)).toBeLessThan(1e-5);
      return ddp.parameters;
    });
    expect(states[1]).toEqual(states[0]);
  });

  test('keeps separate averages for each optimizer and each model', async () => {
    await runWorld(1, async (group) => {
      const [a, b, both] = await Promise.all(
        [1, 1, 1].map((weight) => DistributedDataParallel.create(line(weight).slice(0, 1), group)),
      );
      const shared = tf.train.momentum(0.1, 0.9);
      const other = tf.train.momentum(0.1, 0.9);
      for (const [ddp, optimizers] of [
        [a!, [shared, shared]],
        [b!, [shared, shared]],
        [both!, [shared, other]],
      ] as const) {
        for (const optimizer of optimizers) {
          ddp.gradient.fill(1);
          ddp.step(optimizer);
        }
      }
      const moved = Math.fround(1 - 0.1);
      expect(a!.parameters[0]).toBeCloseTo(moved - 0.1 * 1.9, 6);
      expect(b!.parameters).toEqual(a!.parameters);
      expect(both!.parameters[0]).toBeCloseTo(moved - 0.1, 6);
    });
  });

  test('rejects an optimizer whose averages would be lost, and changes nothing', async () => {
    await runWorld(1, async (group) => {
      const optimizer = tf.train.adam(0.1);
      const [weight, bias] = line(1);
      const stepOf = (ddp: DistributedDataParallel): void => {
        ddp.gradient.fill(1);
        ddp.step(optimizer);
      };
      const both = await DistributedDataParallel.create([weight, bias], group);
      stepOf(both);
      const averages = structuredClone(both.flatOptimizer<Optimizer>(optimizer).state().slots);

      for (const frozen of [weight, bias]) {
        frozen.trainable = false;
        const one = await DistributedDataParallel.create([weight, bias], group);
        const before = one.parameters.slice();
        expect(() => stepOf(one)).toThrow(
          /Adam has averages for other parameters \(2\) than .* \(1\), .*frozen.*new optimizer/,
        );
        expect(one.parameters).toEqual(before);
        frozen.trainable = true;
      }
      const again = await DistributedDataParallel.create([weight, bias], group);
      expect(again.flatOptimizer<Optimizer>(optimizer).state().slots).toEqual(averages);

      optimizer.minimize(() => weight.sum().asScalar());
      await again.broadcastParameters(0);
      const before = again.parameters.slice();
      expect(() => stepOf(again)).toThrow(/Adam has done 1 steps by itself, as in model.fit, after distributed steps/);
      expect(again.parameters).toEqual(before);
    });
  });

  test.each([
    ['has no averages', () => tf.train.sgd(0.1), true],
    ['has not stepped, even if its averages do not begin at 0', () => tf.train.adagrad(0.1), false],
  ])('accepts an optimizer for other parameters if it %s', async (_, create, steps) => {
    await runWorld(1, async (group) => {
      const optimizer = create();
      const [weight, bias] = line(1);
      const both = await DistributedDataParallel.create([weight, bias], group);
      both.gradient.fill(1);
      if (steps) both.step(optimizer);
      else both.flatOptimizer(optimizer);
      bias.trainable = false;
      const one = await DistributedDataParallel.create([weight, bias], group);
      one.gradient.fill(1);
      one.step(optimizer);
      expect(weight.dataSync()[0]).toBeLessThan(1);
    });
  });

  test('rejects a value that is not an optimizer, and changes nothing', async () => {
    await runWorld(1, async (group) => {
      const ddp = await DistributedDataParallel.create(line(1), group);
      ddp.gradient.fill(1);
      const before = ddp.parameters.slice();
      for (const value of [undefined, 'adam', tf.layers.dense({ units: 1 }).getConfig()]) {
        expect(() => ddp.step(value as unknown as tf.Optimizer)).toThrow(UsageError);
      }
      expect(ddp.parameters).toEqual(before);
    });
  });
});
