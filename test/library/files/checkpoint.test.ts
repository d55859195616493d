/** Checkpoints of a program's own loop continue it with the same bits. */
import * as tf from '@tensorflow/tfjs';
import * as v from 'valibot';
import { describe, expect, test } from 'vitest';
import {
  createOptimizer,
  DistributedDataParallel,
  DistributedSampler,
  loadCheckpoint,
  optimizerOf,
  saveCheckpoint,
  type Optimizer,
  type ProcessGroup,
  type TensorflowOptimizer,
} from '../../../src/index.ts';
import { decodeStateFile, encodeStateFile } from '../../../src/formats/stateFile.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { DataError, MismatchError, UsageError } from '../../../src/util/errors.ts';
import { errorOf } from '../../errorOf.ts';
import { meanSquare, weightsOf } from '../../parallel/models.ts';

const SAMPLES = 24;
const STEPS = 4;

function network(seed: number, units = 4): tf.Sequential {
  const kernelInitializer = tf.initializers.glorotUniform({ seed });
  return tf.sequential({
    layers: [
      tf.layers.dense({ name: 'first', units, inputShape: [3], kernelInitializer, activation: 'relu' }),
      tf.layers.batchNormalization({ name: 'norm', momentum: 0.5 }),
      tf.layers.dense({ name: 'last', units: 2, kernelInitializer }),
    ],
  });
}

type AnyOptimizer = Optimizer | TensorflowOptimizer;
interface Position {
  epoch: number;
  step: number;
}

/** Trains two epochs from a position; saves before the step `saveAt` if there is one. */
async function train(
  ddp: DistributedDataParallel,
  optimizer: AnyOptimizer,
  group: ProcessGroup,
  from: Position,
  saveAt?: Position,
): Promise<Uint8Array<ArrayBuffer> | null> {
  const sampler = new DistributedSampler(SAMPLES, { numReplicas: group.worldSize, rank: group.rank });
  const batch = sampler.length / STEPS;
  let saved: Uint8Array<ArrayBuffer> | null = null;
  for (let { epoch, step } = from; epoch < 2; epoch++, step = 0) {
    sampler.setEpoch(epoch);
    const indices = sampler.indices();
    for (; step < STEPS; step++) {
      if (saveAt?.epoch === epoch && saveAt.step === step) {
        saved = await saveCheckpoint({ model: ddp, optimizer, progress: { epoch, step } });
      }
      const own = indices.subarray(step * batch, (step + 1) * batch);
      const inputs = tf.tensor2d(Array.from(own, (i) => [Math.sin(i), Math.cos(i), i / SAMPLES]));
      await ddp.backward({ inputs, loss: meanSquare }, { samples: own.length });
      ddp.step(optimizer);
      inputs.dispose();
    }
  }
  return saved;
}

const OPTIMIZERS: [string, (size: number) => AnyOptimizer][] = [
  ['adamw of createOptimizer', (size) => createOptimizer('adamw', { learningRate: 0.05 }, size)],
  ['tf.train.adam', () => tf.train.adam(0.05)],
  ['tf.train.rmsprop through optimizerOf', (size) => optimizerOf(tf.train.rmsprop(0.02, 0.9, 0.5), size)],
];

describe.each(OPTIMIZERS)('with %s', (_, create) => {
  test.each([
    ['before the first step', { epoch: 0, step: 0 }],
    ['within the second epoch', { epoch: 1, step: 2 }],
  ])('a run resumed from a checkpoint %s ends with the same bits', async (__, saveAt) => {
    const whole = await runWorld(3, async (group) => {
      const model = network(1);
      const ddp = await DistributedDataParallel.create(model, group);
      const bytes = await train(ddp, create(ddp.parameters.length), group, { epoch: 0, step: 0 }, saveAt);
      return { bytes, weights: weightsOf(model), parameters: ddp.parameters };
    });
    const file = whole[0]!.bytes!;
    expect(whole.map(({ bytes }) => bytes !== null)).toEqual([true, false, false]);
    await runWorld(3, async (group) => {
      const model = network(50 + group.rank);
      const ddp = await DistributedDataParallel.create(model, group);
      const optimizer = create(ddp.parameters.length);
      // Training before the load has no effect.
      await train(ddp, optimizer, group, { epoch: 1, step: 3 });
      await group.barrier();
      const tensors = tf.memory().numTensors;
      const source = group.rank === 0 ? new Blob([file]) : null;
      const position = await loadCheckpoint<Position>({ model: ddp, optimizer }, source);
      await group.barrier();
      expect(tf.memory().numTensors).toBe(tensors);
      await group.barrier();
      expect(position).toEqual(saveAt);
      await train(ddp, optimizer, group, position);
      expect(weightsOf(model)).toEqual(whole[0]!.weights);
      expect(ddp.parameters).toEqual(whole[0]!.parameters);
    });
  });
});

test('a checkpoint of three ranks can be continued in one tab, and its model can be loaded alone', async () => {
  const [file] = await runWorld(3, async (group) => {
    const ddp = await DistributedDataParallel.create(network(1), group);
    const optimizer = createOptimizer('adam', { learningRate: 0.05 }, ddp.parameters.length);
    await train(ddp, optimizer, group, { epoch: 0, step: 0 });
    const { slots } = optimizer.state();
    const averages = ddp.layout.slots.map(({ parameter, offset, size }) => [
      parameter,
      slots[0]!.slice(offset, offset + size),
    ]);
    const progress = { best: NaN, day: new Date(5), averages: new Map(averages as [number, Float32Array][]) };
    return {
      bytes: await saveCheckpoint({ model: ddp, optimizer, progress }),
      weights: weightsOf(ddp.variables.model!),
    };
  });
  const model = network(2);
  const optimizer = createOptimizer('adam', { learningRate: 1 }, 4 * 3 + 4 + 8 + 8 + 2);
  const progress = await loadCheckpoint<{ best: number; day: Date; averages: Map<number, Float32Array> }>(
    { model, optimizer },
    file!.bytes,
  );
  expect(weightsOf(model)).toEqual(file!.weights);
  expect([progress.best, progress.day]).toEqual([NaN, new Date(5)]);
  expect(optimizer.learningRate).toBe(0.05);
  // Without ranks, parameters are in reverse order.
  const expected = [5, 4, 3, 2, 1, 0].flatMap((parameter) => Array.from(progress.averages.get(parameter)!));
  expect(Array.from(optimizer.state().slots[0]!)).toEqual(expected);
  await loadCheckpoint({ model: network(3) }, file!.bytes);
});

test('a checkpoint restores the parameter order on which ranks had agreed', async () => {
  await runWorld(2, async (group) => {
    const [a, b] = [2, 3].map((size, i) => tf.tidy(() => tf.variable(tf.ones([size]), true, `${i} on ${group.rank}`)));
    const wrap = () => DistributedDataParallel.create([a!, b!], group);
    const optimizer = createOptimizer('momentum', { learningRate: 0.1 }, 5);
    const ddp = await wrap();
    // Back-propagation reaches the second parameter last.
    await ddp.backward(() => tf.concat([b!.square(), a!]).square().sum().asScalar(), { samples: 1 });
    expect(ddp.parameterOrder).toEqual([0, 1]);
    ddp.step(optimizer);
    const file = await saveCheckpoint({ model: ddp, optimizer }, { rank: group.rank });
    const [values, averages] = [ddp.parameters.slice(), optimizer.state().slots[0]!.slice()];
    const again = await wrap();
    expect(again.parameterOrder).toEqual([1, 0]);
    const fresh = createOptimizer('momentum', { learningRate: 0.1 }, 5);
    await loadCheckpoint({ model: again, optimizer: fresh }, file);
    expect(again.parameterOrder).toEqual([0, 1]);
    expect(again.parameters).toEqual(values);
    expect(fresh.state().slots[0]).toEqual(averages);
  });
});

test('a checkpoint contains the state at the time of the call', async () => {
  const model = network(1);
  const optimizer = createOptimizer('momentum', { learningRate: 0.1 }, 34);
  const expected = weightsOf(model);
  const saving = saveCheckpoint({ model, optimizer });
  model.setWeights(network(2).getWeights());
  optimizer.apply(new Float32Array(34), new Float32Array(34).fill(1));
  const again = createOptimizer('momentum', { learningRate: 0.1 }, 34);
  await loadCheckpoint({ model, optimizer: again }, await saving);
  expect(weightsOf(model)).toEqual(expected);
  expect(again.state().slots[0]).toEqual(new Float32Array(34));
});

const flat = (name: 'adam' | 'sgd') => createOptimizer(name, { learningRate: 0.1 }, 34);

describe('a model stays unchanged', () => {
  test.each([
    ['is cut off', (bytes: Uint8Array<ArrayBuffer>) => bytes.slice(0, -4), /^The file is damaged \(it has/],
    [
      'has a changed byte',
      (bytes: Uint8Array<ArrayBuffer>) => bytes.with(bytes.length - 9, 1),
      /not those that were saved/,
    ],
    ['is another file', () => new TextEncoder().encode('{}'), /is damaged/],
  ])('if the checkpoint %s', async (_, damage, message) => {
    const model = network(1);
    const bytes = await saveCheckpoint({ model, optimizer: flat('adam') });
    const optimizer = flat('adam');
    const other = network(2);
    const [weights, { numTensors }] = [weightsOf(other), tf.memory()];
    const error = await errorOf(loadCheckpoint({ model: other, optimizer }, damage(bytes)));
    expect(error).toBeInstanceOf(DataError);
    expect(error.message).toMatch(message);
    expect([weightsOf(other), tf.memory().numTensors]).toEqual([weights, numTensors]);
  });

  test.each(['[[-7,10000000]]', '[[1],["Set",2],[-7,4000000000]]', '[["RegExp","(a+)+$"]]', '['])(
    'if the progress is not plain data, or would expand from a few bytes to gigabytes: %s',
    async (progress) => {
      const model = network(2);
      const weights = weightsOf(model);
      const whole = new Blob([await saveCheckpoint({ model: network(1) })]);
      const { meta, arrays } = await decodeStateFile('own', whole, v.looseObject({ kind: v.string() }));
      const error = await errorOf(loadCheckpoint({ model }, encodeStateFile({ ...meta, progress }, arrays)));
      expect(error).toBeInstanceOf(DataError);
      expect(weightsOf(model)).toEqual(weights);
    },
  );

  test('if the checkpoint is of a different model or optimizer', async () => {
    const bytes = await saveCheckpoint({ model: network(1), optimizer: flat('sgd') });
    const wide = network(1, 9);
    expect((await errorOf(loadCheckpoint({ model: wide }, bytes))).message).toMatch(
      /"first\/kernel".*\[3, 4\].*\[3, 9\]/,
    );
    const model = network(2);
    const weights = weightsOf(model);
    expect(await errorOf(loadCheckpoint({ model, optimizer: flat('adam') }, bytes))).toBeInstanceOf(MismatchError);
    const none = await saveCheckpoint({ model: network(1) });
    expect(await errorOf(loadCheckpoint({ model, optimizer: flat('adam') }, none))).toBeInstanceOf(DataError);
    expect(weightsOf(model)).toEqual(weights);
  });

  test('on all ranks if one rank has a different optimizer', async () => {
    const bytes = await saveCheckpoint({ model: network(1), optimizer: flat('adam') });
    const errors = await runWorld(3, async (group) => {
      const model = network(2);
      const ddp = await DistributedDataParallel.create(model, group);
      const before = weightsOf(model);
      const optimizer = flat(group.rank === 1 ? 'sgd' : 'adam');
      const error = await errorOf(loadCheckpoint({ model: ddp, optimizer }, group.rank === 0 ? bytes : null));
      expect(weightsOf(model)).toEqual(before);
      return error;
    });
    expect(errors.map(({ name }) => name)).toEqual(['DataError', 'MismatchError', 'DataError']);
    expect(errors[0]!.message).toMatch(/^Rank 1 could not load the file: The state belongs to adam/);
  });

  test("if saving fails because an optimizer's state cannot be read or progress is not data", async () => {
    const model = network(1);
    const untouched = tf.train.adam(0.1);
    expect(await errorOf(saveCheckpoint({ model, optimizer: untouched }))).toBeInstanceOf(UsageError);
    await expect(saveCheckpoint({ model, progress: () => {} })).rejects.toThrow(/progress cannot be saved/);
  });
});
