/** Parameters that a loss does not depend on. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { createOptimizer, type OptimizerName } from '../../../src/optim/index.ts';
import { allReduceHook } from '../../../src/parallel/ddp/commHooks.ts';
import { createPowerSgdHook } from '../../../src/parallel/ddp/powerSgd.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { MismatchError } from '../../../src/util/errors.ts';
import { errorOf } from '../../errorOf.ts';

/**
 * Three parameters of two elements each, and a loss that uses the parameters in `which`, multiplied
 * by `factor`.
 */
function branches() {
  const variables = [1, 2, 3].map((value) => tf.variable(tf.tensor1d([value, -value])));
  const loss = (which: readonly number[], factor = 1) =>
    tf.addN(which.map((i) => variables[i]!.mul(factor * (i + 1)).sum())).asScalar();
  return { variables, loss };
}

/** By parameter: its elements in a flat array. */
function byParameter(ddp: DistributedDataParallel, flat: Float32Array): number[][] {
  const { slots } = ddp.layout;
  return slots
    .toSorted((a, b) => a.parameter - b.parameter)
    .map(({ offset, size }) => Array.from(flat.subarray(offset, offset + size)));
}

describe('a parameter', () => {
  test.each([true, false])(
    'that only some ranks use has a gradient averaged over all ranks (findUnusedParameters: %s)',
    async (findUnusedParameters) => {
      await runWorld(3, async (group) => {
        const { variables, loss } = branches();
        const ddp = await DistributedDataParallel.create(variables, group, { findUnusedParameters });
        await ddp.backward(() => loss(group.rank === 1 ? [0, 1] : [0], 3), { samples: 1 });
        expect(byParameter(ddp, ddp.gradient)).toEqual([
          [3, 3],
          [2, 2],
          [0, 0],
        ]);
      });
    },
  );

  describe.each([false, true])('that no rank uses (with a hook: %s)', (hooked) => {
    test.each(['sgd', 'momentum', 'adam', 'adamw'] as OptimizerName[])(
      'keeps its gradient, and %s changes neither the parameter nor its optimizer state',
      async (name) => {
        await runWorld(3, async (group) => {
          const { variables, loss } = branches();
          const ddp = await DistributedDataParallel.create(variables, group, { findUnusedParameters: true });
          if (hooked) ddp.registerCommHook(allReduceHook);
          const optimizer = createOptimizer(name, { learningRate: 0.1, weightDecay: 0.1 }, ddp.layout.size);
          const state = () =>
            [ddp.gradient, ddp.parameters, ...optimizer.state().slots].map((flat) => byParameter(ddp, flat));
          await ddp.backward(() => loss([0, 1, 2], 5), { samples: 1 });
          ddp.step(optimizer);
          const before = state();
          await ddp.backward(() => loss(group.rank === 0 ? [2] : [0], 7), { samples: 1 });
          ddp.step(optimizer);
          for (const [i, after] of state().entries()) {
            expect(after[1]).toEqual(before[i]![1]);
            expect(after[0]).not.toEqual(before[i]![0]);
            expect(after[2]).not.toEqual(before[i]![2]);
          }
          expect(Array.from(variables[1]!.dataSync())).toEqual(before[1]![1]);
          // If the parameter is used again, it changes again.
          await ddp.backward(() => loss([1], 5), { samples: 1 });
          ddp.step(optimizer);
          expect(state()[1]![1]).not.toEqual(before[1]![1]);
        });
      },
    );
  });

  test('that no rank uses for some steps keeps its residual of PowerSGD', async () => {
    await runWorld(2, async (group) => {
      const [matrix, bias] = [tf.variable(tf.zeros([8, 8])), tf.variable(tf.zeros([2]))];
      const ddp = await DistributedDataParallel.create([matrix, bias], group, { findUnusedParameters: true });
      ddp.registerCommHook(createPowerSgdHook({ startPowerSgdIter: 0, minCompressionRate: 1 }));
      const gradients = [5, 6].map((seed) => tf.randomNormal([8, 8], 0, 1, 'float32', seed));
      const sent = new Float64Array(64);
      const backward = async (factor: number | null): Promise<void> => {
        const loss = (): tf.Scalar => {
          const used = bias.sum();
          if (factor === null) return used.asScalar();
          return used.add(matrix.mul(gradients[group.rank]!).mul(factor).sum()).asScalar();
        };
        await ddp.backward(() => tf.tidy(loss), { samples: 1 });
        if (factor !== null) byParameter(ddp, ddp.gradient)[0]!.forEach((value, i) => (sent[i]! += value));
      };
      await backward(1);
      const first = byParameter(ddp, ddp.gradient)[0]!;
      for (let step = 0; step < 20; step++) await backward(null);
      expect(byParameter(ddp, ddp.gradient)[0]).toEqual(first);
      // Gradients of zero: only the residual is sent now.
      for (let step = 0; step < 60; step++) await backward(0);
      const [a, b] = gradients.map((gradient) => gradient.dataSync());
      sent.forEach((value, i) => expect(value).toBeCloseTo((a![i]! + b![i]!) / 2, 4));
    });
  });

  test('that no rank uses has the gradient 0 without findUnusedParameters', async () => {
    await runWorld(2, async (group) => {
      const { variables, loss } = branches();
      const ddp = await DistributedDataParallel.create(variables, group);
      await ddp.backward(() => loss([0, 1, 2]), { samples: 1 });
      await ddp.backward(() => loss([0, 1]), { samples: 1 });
      expect(byParameter(ddp, ddp.gradient)[2]).toEqual([0, 0]);
    });
  });

  test('that only a noSync pass uses counts as used in the next reduction', async () => {
    await runWorld(2, async (group) => {
      const { variables, loss } = branches();
      const ddp = await DistributedDataParallel.create(variables, group, { findUnusedParameters: true });
      await ddp.noSync(() => ddp.backward(() => loss(group.rank === 0 ? [1] : [0]), { samples: 1 }));
      await ddp.backward(() => loss([0]), { samples: 1 });
      expect(byParameter(ddp, ddp.gradient)).toEqual([
        [0.75, 0.75],
        [0.5, 0.5],
        [0, 0],
      ]);
    });
  });

  test('does not change in a step in which no rank has samples', async () => {
    await runWorld(2, async (group) => {
      const { variables, loss } = branches();
      const ddp = await DistributedDataParallel.create(variables, group, { findUnusedParameters: true });
      const optimizer = createOptimizer('adamw', { learningRate: 0.1 }, ddp.layout.size);
      await ddp.backward(() => loss([0, 1, 2]), { samples: 1 });
      ddp.step(optimizer);
      const before = structuredClone([ddp.parameters, ddp.gradient, optimizer.state()]);
      await ddp.backward(() => loss([0, 1, 2]), { samples: 0 });
      ddp.step(optimizer);
      expect([ddp.parameters, ddp.gradient, optimizer.state()]).toEqual(before);
    });
  });
});

describe('staticGraph', () => {
  test('keeps parameters unchanged that are never used, like findUnusedParameters', async () => {
    await runWorld(2, async (group) => {
      const { variables, loss } = branches();
      const ddp = await DistributedDataParallel.create(variables, group, { staticGraph: true });
      const optimizer = createOptimizer('adamw', { learningRate: 0.1 }, ddp.layout.size);
      for (let step = 0; step < 3; step++) {
        await ddp.backward(() => loss(group.rank === 0 ? [0, 1] : [0]), { samples: 1 });
        ddp.step(optimizer);
      }
      expect(byParameter(ddp, ddp.parameters)[2]).toEqual([3, -3]);
      expect(byParameter(ddp, ddp.parameters)[1]).not.toEqual([2, -2]);
    });
  });

  test.each([
    ['a parameter fewer', [0], 'the first pass used parameter 1'],
    ['a parameter more', [0, 1, 2], 'the first pass did not use parameter 2'],
  ])('rejects on every rank a pass that uses %s than the first pass', async (_what, changed, message) => {
    const errors: unknown[] = [];
    await runWorld(3, async (group) => {
      const { variables, loss } = branches();
      const ddp = await DistributedDataParallel.create(variables, group, { staticGraph: true });
      await ddp.backward(() => loss([0, 1]), { samples: 1 });
      // A rank without samples has no graph to compare.
      await ddp.backward(() => loss([0, 1]), { samples: group.rank === 0 ? 0 : 1 });
      const last = ddp.backward(() => loss(group.rank === 2 ? changed : [0, 1]), { samples: 1 });
      errors.push(await errorOf(last));
    });
    expect(errors).toHaveLength(3);
    for (const error of errors) {
      expect(error).toBeInstanceOf(MismatchError);
      expect(String(error)).toMatch(/Your training graph has changed on rank 2/);
      expect(String(error)).toContain(message);
      expect(String(error)).toMatch(/"\), but this pass (does|does not)\. Set/);
    }
  });

  test('also compares noSync passes with the first pass', async () => {
    await runWorld(1, async (group) => {
      const { variables, loss } = branches();
      const ddp = await DistributedDataParallel.create(variables, group, { staticGraph: true });
      await ddp.noSync(() => ddp.backward(() => loss([0]), { samples: 1 }));
      const error = await errorOf(ddp.noSync(() => ddp.backward(() => loss([1]), { samples: 1 })));
      expect(error.message).toMatch(/training graph has changed/);
    });
  });
});
