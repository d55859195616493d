/** Uneven inputs. */
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import type { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { createOptimizer } from '../../../src/optim/index.ts';
import { allReduceHook, type CommHook } from '../../../src/parallel/ddp/commHooks.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import type { DistributedDataParallelOptions } from '../../../src/parallel/ddp/options.ts';
import type { JoinOptions } from '../../../src/parallel/ddp/join.ts';
import { createPowerSgdHook } from '../../../src/parallel/ddp/powerSgd.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { EarlyTerminationError, MismatchError, UsageError } from '../../../src/util/errors.ts';
import { nameRanks } from '../../../src/util/text.ts';
import { errorOf } from '../../errorOf.ts';
import { line, meanSquare, mlp, normalized, relativeDifference, samplesOf, weightsOf } from '../models.ts';

const SMALL_BUCKETS = { firstBucketBytes: 4, bucketCapBytes: 64 };

/** A hook with several collectives per bucket. */
const gatherHook: CommHook = async ({ buffer }, group) => {
  const parts = await group.allGather(buffer);
  buffer.fill(0);
  for (const part of parts) for (let i = 0; i < part.length; i++) buffer[i]! += part[i]!;
  await group.barrier();
};

interface Setting {
  model?: (seed: number) => tf.LayersModel;
  /** Loss of a sample, for `model`. */
  shape?: number[];
  options?: DistributedDataParallelOptions;
  /** Creates a hook for each rank, because hooks may have state. */
  hook?: () => CommHook;
  /** Every `every`-th iteration is reduced; the gradients of the other iterations are kept. */
  every?: number;
}

/**
 * A rank's loop of `count` iterations inside join; its batches depend on rank and iteration only.
 */
async function loop(
  group: ProcessGroup,
  count: number,
  { model: build = mlp, shape = [3], options = {}, hook, every = 1 }: Setting,
  joinOptions: JoinOptions = {},
): Promise<{ inMain: number[]; inTheEnd: number[] }> {
  const model = build(group.rank);
  const ddp = await DistributedDataParallel.create(model, group, { ...SMALL_BUCKETS, ...options });
  if (hook) ddp.registerCommHook(hook());
  const optimizer = createOptimizer('sgd', { learningRate: 0.05 }, ddp.layout.size);
  const inMain = await ddp.join(async () => {
    for (let i = 0; i < count; i++) {
      const flat = samplesOf(
        group.rank,
        i,
        2,
        shape.reduce((a, b) => a * b),
      );
      const pass = () => ddp.backward({ inputs: flat.reshape([2, ...shape]), loss: lossOf(i, model) }, { samples: 2 });
      if (i % every === 0) {
        await pass();
        ddp.step(optimizer);
      } else {
        await ddp.noSync(pass);
      }
    }
    return weightsOf(model);
  }, joinOptions);
  ddp.dispose();
  return { inMain, inTheEnd: weightsOf(model) };
}

/** Every other iteration uses only the second output of the model. */
const lossOf =
  (iteration: number, model: tf.LayersModel) =>
  (outputs: tf.Tensor): tf.Scalar =>
    model.outputs.length === 1
      ? meanSquare(outputs)
      : meanSquare((outputs as unknown as tf.Tensor[])[iteration % 2 === 0 ? 0 : 1]!);

function twoHeads(seed: number): tf.LayersModel {
  const input = tf.input({ shape: [3] });
  const dense = (unit: number) =>
    tf.layers.dense({ units: 2, kernelInitializer: tf.initializers.glorotUniform({ seed: seed + unit }) });
  const body = dense(0).apply(input);
  return tf.model({
    inputs: input,
    outputs: [dense(1).apply(body) as tf.SymbolicTensor, dense(2).apply(body) as tf.SymbolicTensor],
  });
}

function convolutional(seed: number): tf.LayersModel {
  const initializer = (k: number) => ({ kernelInitializer: tf.initializers.glorotUniform({ seed: seed + k }) });
  return tf.sequential({
    layers: [
      tf.layers.conv2d({ ...initializer(0), inputShape: [4, 4, 1], filters: 2, kernelSize: 2, activation: 'relu' }),
      tf.layers.batchNormalization({ momentum: 0.9 }),
      tf.layers.conv2d({ ...initializer(1), filters: 2, kernelSize: 2 }),
      tf.layers.flatten(),
      tf.layers.dense({ ...initializer(2), units: 1 }),
    ],
  });
}

const SETTINGS: [string, Setting][] = [
  ['a linear model', {}],
  ['average: ranks', { options: { average: 'ranks' } }],
  ['convolutions in many buckets', { model: convolutional, shape: [4, 4, 1], options: { bucketCapBytes: 4 } }],
  ['a static graph', { model: normalized, options: { staticGraph: true } }],
  ['a hook', { model: normalized, hook: () => allReduceHook }],
  ['a hook of several collectives', { hook: () => gatherHook }],
  ['PowerSGD', { model: convolutional, shape: [4, 4, 1], hook: () => createPowerSgdHook({ startPowerSgdIter: 2 }) }],
  [
    'a reduction after every third pass, a hook and unused parameters',
    { model: twoHeads, every: 3, hook: () => gatherHook, options: { findUnusedParameters: true } },
  ],
];

test('ranks with 10, 7 and 0 batches all end with the model of the rank that trained longest', async () => {
  const counts = [10, 7, 0];
  const results = await runWorld(3, (group) => loop(group, counts[group.rank]!, {}));
  for (const { inTheEnd } of results) expect(inTheEnd).toEqual(results[0]!.inMain);
  expect(results[1]!.inMain).not.toEqual(results[0]!.inMain);
});

describe('join', () => {
  // Conformance case 43 has the grid of iterations.
  test.each(SETTINGS)(
    'ends on all ranks with the model of the rank that trained longest or, of several such ranks, the highest: %s',
    async (_what, setting) => {
      for (const counts of [
        [5, 6, 8],
        [3, 1, 0],
      ]) {
        const results = await runWorld(3, (group) => loop(group, counts[group.rank]!, setting));
        const last = counts.lastIndexOf(Math.max(...counts));
        for (const { inTheEnd } of results) expect(inTheEnd).toEqual(results[last]!.inMain);
      }
    },
  );

  test.each([[[0]], [[3]], [[0, 0]], [[4, 0]], [[0, 0, 0, 1]], [[1, 0, 0, 0]], [[5, 2, 7, 3]], [[2, 2, 2, 2]]])(
    'ends with the same model on all ranks if these have %j iterations',
    async (counts) => {
      for (const every of [1, 2]) {
        const results = await runWorld(counts.length, (group) =>
          loop(group, counts[group.rank]!, { model: normalized, every }),
        );
        const last = counts.lastIndexOf(Math.max(...counts));
        for (const { inTheEnd } of results) expect(inTheEnd).toEqual(results[last]!.inMain);
      }
    },
  );

  test('works in a subgroup whose ranks have different numbers in the world', async () => {
    const counts = [1, 4];
    const results = await runWorld(4, async (world) => {
      const group = await world.newGroup([3, 1]);
      return world.rank % 2 === 1 ? loop(group, counts[group.rank]!, { model: normalized }) : null;
    });
    expect(results[3]!.inTheEnd).toEqual(results[1]!.inMain);
    expect(results[1]!.inTheEnd).toEqual(results[1]!.inMain);
  });

  test('weights every sample equally, and has the result of one rank with all samples', async () => {
    const counts = [2, 0, 5];
    const [{ inTheEnd }] = (await runWorld(3, (group) => loop(group, counts[group.rank]!, {}))) as [
      Awaited<ReturnType<typeof loop>>,
    ];
    const [one] = await runWorld(1, async (group) => {
      const model = mlp(0);
      const ddp = await DistributedDataParallel.create(model, group);
      const optimizer = createOptimizer('sgd', { learningRate: 0.05 }, ddp.layout.size);
      for (let i = 0; i < 5; i++) {
        const inputs = tf.concat(counts.flatMap((count, rank) => (i < count ? [samplesOf(rank, i, 2)] : [])));
        await ddp.backward({ inputs, loss: meanSquare }, { samples: inputs.shape[0] });
        ddp.step(optimizer);
      }
      return weightsOf(model);
    });
    expect(relativeDifference(inTheEnd, one!)).toBeLessThan(1e-6);
  });

  test('uses gradients that a rank kept by noSync before its inputs were used up', async () => {
    const counts = [2, 3];
    const gradients = await runWorld(2, async (group) => {
      const [weight, bias] = line(0);
      const ddp = await DistributedDataParallel.create([weight, bias], group);
      await ddp.join(async () => {
        for (let i = 0; i < counts[group.rank]!; i++) {
          const pass = () =>
            ddp.backward(
              () =>
                weight
                  .mul(10 ** i)
                  .add(bias)
                  .sum()
                  .asScalar(),
              { samples: 1 },
            );
          if (i % 3 === 2) await pass();
          else await ddp.noSync(pass);
        }
      });
      return Array.from(ddp.gradient);
    });
    expect(gradients[1]).toEqual([1, Math.fround((1 + 10 + 1 + 10 + 100) / 5)]);
  });

  describe('with throwOnEarlyTermination', () => {
    test.each([[[3, 5, 6]], [[5, 3, 3]], [[4, 0, 2]]])(
      'stops all ranks after the fewest iterations in %j',
      async (counts) => {
        const fewest = Math.min(...counts);
        const states = await runWorld(3, async (group) => {
          const model = normalized(group.rank);
          const ddp = await DistributedDataParallel.create(model, group);
          const optimizer = createOptimizer('adam', { learningRate: 0.1 }, ddp.layout.size);
          let done = 0;
          const pass = async (): Promise<void> => {
            await ddp.backward({ inputs: samplesOf(group.rank, done, 4), loss: meanSquare }, { samples: 4 });
            ddp.step(optimizer);
          };
          const main = async (): Promise<void> => {
            for (; done < counts[group.rank]!; done++) await pass();
          };
          const error = await errorOf(ddp.join(main, { throwOnEarlyTermination: true }));
          expect(error).toBeInstanceOf(EarlyTerminationError);
          const dry = counts.flatMap((count, rank) => (count === fewest ? [rank] : []));
          expect(error.message).toBe(
            counts[group.rank] === fewest
              ? `Rank ${group.rank} has no more inputs after ${fewest} iterations, so all ranks stop.`
              : `Rank ${group.rank} stopped after ${fewest} iterations because the inputs of ${nameRanks(dry)} ended.`,
          );
          expect(done).toBe(fewest);
          // All ranks have the same state and can continue.
          await pass();
          return [...weightsOf(model), ...optimizer.state().slots.flatMap((slot) => Array.from(slot))];
        });
        for (const state of states) expect(state).toEqual(states[0]);
      },
    );

    test('does not throw if all ranks end together', async () => {
      const results = await runWorld(3, (group) => loop(group, 4, {}, { throwOnEarlyTermination: true }));
      for (const { inTheEnd } of results) expect(inTheEnd).toEqual(results[2]!.inMain);
    });
  });

  test('rejects on every rank if only some ranks use noSync in an iteration', async () => {
    await runWorld(3, async (group) => {
      const [weight, bias] = line(1);
      const ddp = await DistributedDataParallel.create([weight, bias], group);
      const pass = () => ddp.backward(() => weight.add(bias).sum().asScalar(), { samples: 1 });
      const main = async (): Promise<void> => {
        if (group.rank === 0) await pass();
        if (group.rank === 1) await ddp.noSync(pass);
      };
      const error = await errorOf(ddp.join(main));
      expect(error).toBeInstanceOf(MismatchError);
      expect(error.message).toMatch(
        /^Only rank 0 reduced the gradients of this iteration; the other ranks kept theirs/,
      );
    });
  });

  test('sends additional bytes only for passes inside join', async () => {
    await runWorld(3, async (group) => {
      const [weight, bias] = line(1);
      const ddp = await DistributedDataParallel.create([weight, bias], group);
      const pass = () => ddp.backward(() => weight.add(bias).sum().asScalar(), { samples: 1 });
      await pass();
      const before = await pass();
      const inside = await ddp.join(pass);
      const after = await pass();
      expect(after.bytesSent).toBe(before.bytesSent);
      expect(inside.bytesSent).toBeGreaterThan(before.bytesSent);
    });
  });

  test('rejects a nested join, and rejects with the error of its callback', async () => {
    await runWorld(1, async (group) => {
      const ddp = await DistributedDataParallel.create(line(1), group);
      await expect(ddp.join(() => ddp.join(() => Promise.resolve()))).rejects.toBeInstanceOf(UsageError);
      await expect(ddp.join(() => Promise.reject(new Error('out of memory')))).rejects.toThrow('out of memory');
      await expect(ddp.join(() => Promise.resolve('fine'))).resolves.toBe('fine');
    });
  });
});
