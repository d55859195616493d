/** Buckets in the order in which gradients become ready. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { createOptimizer } from '../../../src/optim/index.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { errorOf } from '../../errorOf.ts';
import { mlp, meanSquare, samplesOf, weightsOf } from '../models.ts';

const orderOf = (ddp: DistributedDataParallel): number[] => ddp.layout.slots.map(({ parameter }) => parameter);

/** Variables of 1, 2, 3, ... elements, filled with 10, 20, 30, ... */
function variables(count: number): tf.Variable[] {
  return Array.from({ length: count }, (_, i) => tf.variable(tf.ones([i + 1]).mul(10 * (i + 1))));
}

const sumOf = (...terms: tf.Tensor[]): tf.Scalar => tf.addN(terms.map((term) => term.sum())).asScalar();

describe('buckets', () => {
  test('are rebuilt in the order in which back-propagation finishes gradients', async () => {
    await runWorld(3, async (group) => {
      const [a, b, c, unused] = variables(4) as [tf.Variable, tf.Variable, tf.Variable, tf.Variable];
      const ddp = await DistributedDataParallel.create([a, b, c, unused], group);
      expect(orderOf(ddp)).toEqual([3, 2, 1, 0]);
      const { parameters, gradient } = ddp;
      // Back-propagation finishes the variable that is used first last. `b` is used twice, so its
      // first use decides. `c` is also used in an op without effect on the loss.
      const loss = (): tf.Scalar => {
        c.square();
        const [early, middle] = [b.mul(1), a.mul(2)];
        return sumOf(early, middle, c.mul(4), b.mul(3));
      };
      await ddp.backward(loss, { samples: 1 });
      expect(orderOf(ddp)).toEqual([2, 0, 1, 3]);
      expect(ddp.parameters).toBe(parameters);
      expect(ddp.gradient).toBe(gradient);
      expect(Array.from(parameters)).toEqual([30, 30, 30, 10, 20, 20, 40, 40, 40, 40]);
      expect(Array.from(gradient)).toEqual([4, 4, 4, 2, 4, 4, 0, 0, 0, 0]);
      ddp.step(createOptimizer('sgd', { learningRate: 1 }, ddp.layout.size));
      expect([a, b, c, unused].map((variable) => variable.dataSync()[0])).toEqual([8, 16, 26, 40]);
    });
  });

  test('have the order of the first rank with samples if orders differ between ranks', async () => {
    for (const samples of [
      [1, 1, 1],
      [0, 1, 1],
      [0, 0, 1],
    ]) {
      await runWorld(3, async (group) => {
        const [a, b] = variables(2) as [tf.Variable, tf.Variable];
        const ddp = await DistributedDataParallel.create([a, b], group);
        const loss = (): tf.Scalar => {
          const aFirst = group.rank !== 1;
          const first = (aFirst ? a : b).mul(1);
          return sumOf(first, (aFirst ? b : a).mul(1));
        };
        await ddp.backward(loss, { samples: samples[group.rank]! });
        expect(orderOf(ddp)).toEqual(samples[0] === 0 && samples[1] === 1 ? [0, 1] : [1, 0]);
      });
    }
  });

  test('keep their first order if no rank has samples in the first reduction', async () => {
    await runWorld(2, async (group) => {
      const [a, b] = variables(2) as [tf.Variable, tf.Variable];
      const ddp = await DistributedDataParallel.create([a, b], group);
      const loss = (): tf.Scalar => {
        const first = b.mul(1);
        return sumOf(first, a.mul(1));
      };
      await ddp.backward(loss, { samples: 0 });
      await ddp.backward(loss, { samples: 1 });
      expect(orderOf(ddp)).toEqual([1, 0]);
      expect(Array.from(ddp.gradient)).toEqual([1, 1, 1]);
    });
  });

  test('begin with a small bucket, and exceed the cap by at most one parameter', async () => {
    await runWorld(2, async (group) => {
      const all = variables(6);
      const ddp = await DistributedDataParallel.create(all, group, { firstBucketBytes: 4, bucketCapBytes: 16 });
      const buckets = (): number[][] => ddp.layout.buckets.map(({ slots }) => slots.map(({ size }) => size));
      expect(buckets()).toEqual([[6], [5], [4], [3, 2], [1]]);
      // In reversed order, so that gradients become ready from the first to the last.
      await ddp.backward(() => sumOf(...all.toReversed().map((variable) => variable.mul(2))), { samples: 1 });
      expect(buckets()).toEqual([[1], [2, 3], [4], [5], [6]]);
      expect(ddp.bucketBytes).toEqual([4, 20, 16, 20, 24 + 8]);
      expect(ddp.gradientBytes).toBe(92);
      expect(Array.from(ddp.gradient)).toEqual(Array.from({ length: 21 }, () => 2));
    });
  });

  test('may hold one parameter each, and replicas stay equal', async () => {
    const states = await runWorld(4, async (group) => {
      const model = mlp(group.rank);
      const ddp = await DistributedDataParallel.create(model, group, { firstBucketBytes: 1, bucketCapBytes: 1 });
      const optimizer = createOptimizer('adam', { learningRate: 0.01 }, ddp.layout.size);
      for (let step = 0; step < 3; step++) {
        await ddp.backward({ inputs: samplesOf(group.rank, step, 4), loss: meanSquare }, { samples: 4 });
        ddp.step(optimizer);
      }
      expect(ddp.layout.buckets).toHaveLength(4);
      return weightsOf(model);
    });
    for (const state of states) expect(state).toEqual(states[0]);
  });

  test('are rebuilt at the first reduction, even if noSync kept gradients before', async () => {
    await runWorld(2, async (group) => {
      const [a, b] = variables(2) as [tf.Variable, tf.Variable];
      const ddp = await DistributedDataParallel.create([a, b], group);
      const loss = (): tf.Scalar => {
        const first = b.mul(3);
        return sumOf(first, a.mul(5));
      };
      await ddp.noSync(() => ddp.backward(loss, { samples: 1 }));
      expect(orderOf(ddp)).toEqual([1, 0]);
      await ddp.backward(loss, { samples: 3 });
      expect(orderOf(ddp)).toEqual([0, 1]);
      expect(Array.from(ddp.gradient)).toEqual([5, 3, 3]);
    });
  });

  test('are not reduced if the loss depends on no parameter, and backward rejects', async () => {
    await runWorld(1, async (group) => {
      const ddp = await DistributedDataParallel.create(variables(2), group);
      expect(String(await errorOf(ddp.backward(() => tf.scalar(1), { samples: 1 })))).toMatch(/any variable/);
    });
  });
});
