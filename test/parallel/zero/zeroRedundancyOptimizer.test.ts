/** Sharded optimizers against DistributedDataParallel with whole optimizers. */
import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import type { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import { loadCheckpoint, saveCheckpoint } from '../../../src/library/files/checkpoint.ts';
import { createOptimizer, type OptimizerName } from '../../../src/optim/index.ts';
import type { Optimizer, OptimizerState } from '../../../src/optim/optimizer.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { ZeroRedundancyOptimizer } from '../../../src/parallel/zero/zeroRedundancyOptimizer.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { meanSquare, mlp, samplesOf } from '../models.ts';

const settings = { learningRate: 0.05 };

const adam = (size: number) => createOptimizer('adam', settings, size);

interface Trained {
  parameters: number[];
  losses: number[];
  bytesSent: number;
  stateBytes: number;
}

async function train(
  group: ProcessGroup,
  name: OptimizerName,
  isSharded: boolean,
  {
    units = 9,
    steps = 6,
    clipNorm = null as number | null,
    buckets = { firstBucketBytes: 40, bucketCapBytes: 80 },
  } = {},
): Promise<Trained> {
  const model = mlp(1, { units });
  group.algorithm = 'ring';
  const ddp = await DistributedDataParallel.create(model, group, buckets);
  const create = (size: number) => createOptimizer(name, settings, size);
  const zero = isSharded ? new ZeroRedundancyOptimizer(ddp, create) : null;
  const whole = isSharded ? null : create(ddp.parameters.length);
  const losses: number[] = [];
  let bytesSent = 0;
  for (let step = 0; step < steps; step++) {
    const inputs = samplesOf(group.rank, step, 2 + group.rank);
    const before = group.bytesSent;
    const { loss } = await ddp.backward({ inputs, loss: meanSquare }, { samples: 2 + group.rank });
    if (clipNorm !== null) await (zero ?? ddp).clipGradNorm(clipNorm);
    if (zero) await zero.step();
    else ddp.step(whole!);
    if (step > 0) bytesSent += group.bytesSent - before;
    inputs.dispose();
    losses.push(loss);
  }
  const { slots } = (zero?.localOptimizer ?? whole!).state();
  const stateBytes = slots.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const parameters = Array.from(ddp.parameters);
  ddp.dispose();
  model.dispose();
  return { parameters, losses, bytesSent: bytesSent / (steps - 1), stateBytes };
}

test.each(['sgd', 'momentum', 'nesterov', 'adam', 'adamw'] as const)(
  'a sharded %s has the bits of a whole optimizer on every rank',
  async (name) => {
    for (const n of [1, 2, 3, 4, 5]) {
      const whole = await runWorld(n, (group) => train(group, name, false));
      const sharded = await runWorld(n, (group) => train(group, name, true));
      for (const { parameters, losses } of sharded) {
        expect(parameters).toEqual(whole[0]!.parameters);
        expect(losses).toEqual(whole[0]!.losses);
      }
    }
  },
);

test('clipping uses the norm of all shards, as with a whole optimizer', async () => {
  const whole = await runWorld(3, (group) => train(group, 'adamw', false, { clipNorm: 0.1 }));
  const sharded = await runWorld(3, (group) => train(group, 'adamw', true, { clipNorm: 0.1 }));
  for (const { parameters } of sharded) {
    expect(parameters).toEqual(sharded[0]!.parameters);
    for (const [i, value] of parameters.entries()) expect(value).toBeCloseTo(whole[0]!.parameters[i]!, 5);
  }
});

test('each of n ranks has 1/n of the averages, and sends as many bytes as a ring all-reduce', async () => {
  const options = { units: 20_000, steps: 3, buckets: {} as { firstBucketBytes: number; bucketCapBytes: number } };
  const n = 4;
  const sharded = await runWorld(n, (group) => train(group, 'adam', true, options));
  const elements = sharded[0]!.parameters.length;
  const formula = (2 * 4 * elements * (n - 1)) / n;
  for (const { bytesSent, stateBytes } of sharded) {
    expect(Math.abs(bytesSent / formula - 1)).toBeLessThan(0.01);
    expect(Math.abs(stateBytes / ((2 * 4 * elements) / n) - 1)).toBeLessThan(0.01);
  }
});

test('a consolidated state can be continued in a whole optimizer, and in other shards', async () => {
  await runWorld(3, async (group) => {
    group.algorithm = 'ring';
    const backward = async (ddp: DistributedDataParallel, step: number): Promise<void> => {
      const inputs = samplesOf(group.rank, step, 2);
      await ddp.backward({ inputs, loss: meanSquare }, { samples: 2 });
      inputs.dispose();
    };
    const [first, second, third] = [mlp(1), mlp(1), mlp(1)];
    const ddps = [];
    for (const each of [first, second, third]) ddps.push(await DistributedDataParallel.create(each, group));
    const [a, b, c] = ddps as [DistributedDataParallel, DistributedDataParallel, DistributedDataParallel];
    const zero = new ZeroRedundancyOptimizer(a, adam);
    expect(() => a.step(adam(a.parameters.length))).toThrow('ZeroRedundancyOptimizer');
    for (const step of [0, 1]) {
      await backward(a, step);
      await zero.step();
    }
    await zero.consolidateStateDict(1);
    if (group.rank !== 1)
      expect(() => zero.stateDict()).toThrow(`Rank ${group.rank} has only its shard of the optimizer's averages.`);
    const state = await group.broadcastObject(group.rank === 1 ? zero.stateDict() : undefined, 1);
    // The other two continue from this state.
    const whole = adam(b.parameters.length);
    whole.load(state);
    for (const ddp of [b, c]) {
      await backward(ddp, 2);
      ddp.parameters.set(a.parameters);
      ddp.writeParameters();
    }
    const other = new ZeroRedundancyOptimizer(c, adam);
    other.loadStateDict(state);
    for (const step of [2, 3]) {
      await backward(a, step);
      await zero.step();
      await backward(b, step);
      b.step(whole);
      await backward(c, step);
      await other.step();
    }
    expect(Array.from(b.parameters)).toEqual(Array.from(a.parameters));
    expect(Array.from(c.parameters)).toEqual(Array.from(a.parameters));
    for (const each of ddps) each.dispose();
    for (const each of [first, second, third]) each.dispose();
  });
});

test('a state that is loaded before the first backward continues like one loaded after it', async () => {
  const saved = await runWorld(2, async (group) => {
    const ddp = await DistributedDataParallel.create(mlp(1, { units: 9 }), group);
    const zero = new ZeroRedundancyOptimizer(ddp, adam);
    await ddp.backward({ inputs: samplesOf(group.rank, 0, 2), loss: meanSquare }, { samples: 2 });
    await zero.step();
    await zero.consolidateStateDict(0);
    return group.rank === 0 ? zero.stateDict() : null;
  });
  const continued = (isEarly: boolean) =>
    runWorld(2, async (group) => {
      const ddp = await DistributedDataParallel.create(mlp(1, { units: 9 }), group);
      const zero = new ZeroRedundancyOptimizer(ddp, adam);
      if (isEarly) zero.loadStateDict(saved[0]!);
      for (let step = 1; step < 4; step++) {
        await ddp.backward({ inputs: samplesOf(group.rank, step, 2), loss: meanSquare }, { samples: 2 });
        if (!isEarly && step === 1) zero.loadStateDict(saved[0]!);
        await zero.step();
      }
      return Array.from(ddp.parameters);
    });
  expect(await continued(true)).toEqual(await continued(false));
});

/** Trains in steps, each of which uses some of three variables, in an order of its own. */
const trainedByParts = (ranks: number, steps: number[][], start?: { values: number[][]; state: OptimizerState }) =>
  runWorld(ranks, async (group) => {
    const variables = [1, 2, 3].map((value, i) => tf.variable(tf.tensor1d(start?.values[i] ?? [value, -value])));
    const ddp = await DistributedDataParallel.create(variables, group, { findUnusedParameters: true });
    const zero = new ZeroRedundancyOptimizer(ddp, adam);
    if (start) zero.loadStateDict(start.state);
    for (const used of steps) {
      const loss = (): tf.Scalar =>
        used
          .reduce<tf.Tensor>((sum, i) => sum.mul(variables[i]!).add(1), tf.scalar(1))
          .square()
          .mean();
      await ddp.backward(loss, { samples: 1 });
      await zero.step();
    }
    await zero.consolidateStateDict(0);
    const values = variables.map((variable) => Array.from(variable.dataSync()));
    return { values, state: group.rank === 0 ? zero.stateDict() : null };
  });

test.each([1, 2, 3])(
  'a state can be continued on %i ranks, even if their first backward uses other parameters than the former ranks used',
  async (ranks) => {
    const steps = [[0, 2], [1, 0], [2, 1, 0], [1, 2], [0]]; // prettier-ignore
    const [whole] = await trainedByParts(2, steps);
    const [first] = await trainedByParts(2, steps.slice(0, 3));
    const [second] = await trainedByParts(ranks, steps.slice(3), { values: first!.values, state: first!.state! });
    for (const [i, value] of second!.values.flat().entries()) expect(value).toBeCloseTo(whole!.values.flat()[i]!, 6);
  },
);

const trainedWithoutSamples = (isSharded: boolean) =>
  runWorld(2, async (group) => {
    const v = tf.variable(tf.zeros([3]));
    const options = { findUnusedParameters: true, algorithm: 'ring' } as const;
    const ddp = await DistributedDataParallel.create([v], group, options);
    const zero = isSharded ? new ZeroRedundancyOptimizer(ddp, adam) : null;
    const whole = adam(3);
    for (const samples of [1, 0, 0, 1]) {
      await ddp.backward(() => v.sub([1, 2, 3]).square().sum().asScalar(), { samples });
      if (zero) await zero.step();
      else ddp.step(whole);
    }
    return Array.from(ddp.parameters);
  });

test('a step in which no rank uses a parameter does not count, as in ddp.step', async () => {
  expect(await trainedWithoutSamples(true)).toEqual(await trainedWithoutSamples(false));
});

test('join, saveCheckpoint and loadCheckpoint of a sharded optimizer reject on every rank', async () => {
  const messages = await runWorld(2, async (group) => {
    const ddp = await DistributedDataParallel.create(mlp(1, { units: 9 }), group);
    const optimizer = new ZeroRedundancyOptimizer(ddp, adam) as unknown as Optimizer;
    const calls = [
      () => ddp.join(() => Promise.resolve()),
      () => saveCheckpoint({ model: ddp, optimizer }),
      () => loadCheckpoint({ model: ddp, optimizer }, null),
    ];
    return Promise.all(calls.map((call) => call().then(String, (error: Error) => error.message)));
  });
  const checkpoint = expect.stringMatching(/Call consolidateStateDict on every rank/) as string;
  const each = [expect.stringMatching(/^join does not work with a ZeroRedundancyOptimizer/), checkpoint, checkpoint];
  expect(messages).toEqual([each, each]);
});
