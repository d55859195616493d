/** An optimizer's averages stay with their parameters when the order of the flat arrays changes. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { createOptimizer } from '../../../src/optim/index.ts';
import type { Optimizer } from '../../../src/optim/optimizer.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import type { TensorflowOptimizer } from '../../../src/parallel/flat/optimizerOf.ts';
import { runWorld } from '../../../src/testing/index.ts';

const SIZE = 8;
const OPTIMIZERS: readonly [string, () => Optimizer | TensorflowOptimizer][] = [
  ['tf.train.adam', () => tf.train.adam(0.1)],
  ['createOptimizer', () => createOptimizer('adam', { learningRate: 0.1 }, SIZE)],
];

/** Two parameters of different sizes. The order of their gradients depends on `isReversed`. */
function pair() {
  const first = tf.variable(tf.tensor1d([1, 2, 3]));
  const second = tf.variable(tf.tensor1d([4, 5, 6, 7, 8]));
  const loss = (isReversed: boolean) => (): tf.Scalar => {
    const terms = [() => first.mul(first).sum(), () => second.mul(second).mul(second).sum()];
    const [a, b] = (isReversed ? terms.reverse() : terms).map((term) => term());
    return a!.add<tf.Tensor>(b!).asScalar();
  };
  const values = (): number[] => [...first.dataSync<'float32'>(), ...second.dataSync<'float32'>()];
  return { variables: [first, second], loss, values };
}

describe('averages of an optimizer', () => {
  test.each(OPTIMIZERS)('for %s keep the order of the parameters when a model is wrapped again', async (_, create) => {
    const run = (wrapsAgain: boolean) =>
      runWorld(2, async (group) => {
        const { variables, loss, values } = pair();
        const optimizer = create();
        const orders = new Set<string>();
        let ddp = await DistributedDataParallel.create(variables, group);
        for (const isReversed of [false, true, false]) {
          await ddp.backward(loss(isReversed), { samples: 1 });
          ddp.step(optimizer);
          orders.add(ddp.parameterOrder.join());
          if (wrapsAgain) ddp = await DistributedDataParallel.create(variables, group);
        }
        return { values: values(), orders: orders.size };
      });
    const [[once], [again]] = await Promise.all([run(false), run(true)]);
    expect(once!.orders).toBe(1);
    expect(again!.orders).toBe(2);
    expect(again!.values).toEqual(once!.values);
  });

  test.each(OPTIMIZERS)(
    'for %s that are loaded before the first backward are reordered with its parameters',
    async (_, create) => {
      const saved = createOptimizer('adam', { learningRate: 0.1 }, SIZE);
      saved.apply(
        new Float32Array(SIZE),
        Float32Array.from({ length: SIZE }, (__, i) => 1 + i),
      );
      await runWorld(2, async (group) => {
        const ends = [];
        for (const isReversed of [false, true]) {
          const { variables, loss, values } = pair();
          const ddp = await DistributedDataParallel.create(variables, group);
          const before = ddp.parameterOrder;
          const optimizer = create();
          const { slots } = saved.state();
          ddp
            .flatOptimizer(optimizer)
            .state()
            .slots.forEach((slot, i) => slot.set(slots[i]!));
          await ddp.backward(loss(isReversed), { samples: 1 });
          expect(ddp.parameterOrder.join() !== before.join()).toBe(isReversed);
          ddp.step(optimizer);
          ends.push(values());
        }
        expect(ends[1]).toEqual(ends[0]);
      });
    },
  );

  test('are left to the program if the optimizer has only apply', async () => {
    await runWorld(1, async (group) => {
      const { variables, loss, values } = pair();
      const ddp = await DistributedDataParallel.create(variables, group);
      await ddp.backward(loss(false), { samples: 1 });
      ddp.step({ apply: (parameters) => parameters.fill(1) });
      expect(values()).toEqual(Array.from({ length: SIZE }, () => 1));
    });
  });

  test('are not reordered for another model of the same size', async () => {
    await runWorld(1, async (group) => {
      const optimizer = createOptimizer('adam', { learningRate: 0.1 }, SIZE);
      for (const variables of [pair().variables, [tf.variable(tf.ones([SIZE]))]]) {
        const ddp = await DistributedDataParallel.create(variables, group);
        ddp.gradient.fill(1);
        ddp.step(optimizer);
      }
      expect(optimizer.state().slots.map((slot) => new Set(slot).size)).toEqual([1, 1]);
    });
  });
});
