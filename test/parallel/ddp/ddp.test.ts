import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import { createOptimizer } from '../../../src/optim/index.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { MismatchError, UsageError } from '../../../src/util/errors.ts';
import { errorOf } from '../../errorOf.ts';
import { line, meanSquare, mlp, relativeDifference, samplesOf, weightsOf } from '../models.ts';

function reject(): never {
  throw new Error('the GPU failed');
}

const zeros = (...shapes: number[][]): tf.Variable[] => shapes.map((shape) => tf.variable(tf.zeros(shape)));
const frozen = (...shapes: number[][]): tf.Variable[] => shapes.map((shape) => tf.variable(tf.zeros(shape), false));
/** A loss in which the second output counts ten times. */
const weighted = (outputs: tf.Tensor): tf.Scalar => outputs.mul([1, 10]).sum().asScalar();
const difference = ([a, b]: tf.Tensor[]): tf.Scalar => a!.sub(b!).sum().asScalar();

describe('DistributedDataParallel', () => {
  test.each([1, 2, 3, 5])(
    "averages gradients over %i ranks, as in PyTorch's test with Linear(1, 1) and the rank as input",
    async (n) => {
      await runWorld(n, async (group) => {
        const [weight, bias] = line(1);
        const ddp = await DistributedDataParallel.create([weight, bias], group);
        for (let i = 0; i < 5; i++) {
          await ddp.backward(() => weight.mul(group.rank).add(bias).asScalar(), { samples: 1 });
          // Back-propagation reaches the bias first.
          expect(Array.from(ddp.gradient)).toEqual([1, Math.fround((n - 1) / 2)]);
        }
      });
    },
  );

  test('returns the gradient of a parameter by name, as a view that step uses', async () => {
    await runWorld(2, async (group) => {
      const model = tf.sequential({
        layers: [tf.layers.dense({ units: 2, inputShape: [3], kernelInitializer: 'zeros' })],
      });
      const ddp = await DistributedDataParallel.create(model, group);
      const inputs = tf.ones([1, 3]).mul(group.rank + 1);
      await ddp.backward({ inputs, loss: weighted }, { samples: 1 });
      const [kernel, bias] = model.trainableWeights.map(({ name }) => name);
      expect(kernel).toMatch(/\/kernel/);
      expect(Array.from(ddp.gradientOf(kernel!))).toEqual([1.5, 15, 1.5, 15, 1.5, 15]);
      expect(Array.from(ddp.gradientOf(bias!))).toEqual([1, 10]);
      ddp.gradientOf(bias!).fill(0);
      ddp.step(createOptimizer('sgd', { learningRate: 1 }, ddp.parameters.length));
      expect(weightsOf(model)).toEqual([-1.5, -15, -1.5, -15, -1.5, -15, 0, 0]);
      expect(() => ddp.gradientOf('bias')).toThrow(
        `There is no parameter "bias". The parameters are ${kernel}, ${bias}.`,
      );
      await ddp.noSync(() => ddp.backward({ inputs, loss: weighted }, { samples: 1 }));
      expect(() => ddp.gradientOf(bias!)).toThrow(/Call backward outside noSync first/);
    });
  });

  test('weights ranks by their number of samples, even if a rank has none', async () => {
    const values = [[1, 2, 3], [], [10]];
    const all = values.flat();
    const losses = await runWorld(3, async (group) => {
      const mine = values[group.rank]!;
      const [weight, bias] = line(2);
      const ddp = await DistributedDataParallel.create([weight, bias], group);
      const sum = (): tf.Scalar => weight.mul(tf.tensor1d(mine)).sum().asScalar();
      const reduction = await ddp.backward(sum, { samples: mine.length, reduction: 'sum' });
      expect(ddp.gradient[0]).toBe(all.reduce((a, b) => a + b) / all.length);
      expect(reduction.samples).toBe(4);
      return reduction.loss;
    });
    expect(losses).toEqual([8, 8, 8]);
  });

  test('starts all ranks from the parameters of rank 0 and keeps them equal bit for bit', async () => {
    const states = await runWorld(4, async (group) => {
      const model = tf.sequential({
        layers: [tf.layers.dense({ units: 5, inputShape: [3], activation: 'relu' }), tf.layers.dense({ units: 2 })],
      });
      const ddp = await DistributedDataParallel.create(model, group, { firstBucketBytes: 4, bucketCapBytes: 32 });
      expect(ddp.layout.buckets.length).toBeGreaterThan(2);
      const optimizer = createOptimizer('adam', { learningRate: 0.01 }, ddp.layout.size);
      for (let step = 0; step < 4; step++) {
        const inputs = tf.randomNormal([6, 3], 0, 1, 'float32', step * 10 + group.rank);
        await ddp.backward(() => (model.apply(inputs) as tf.Tensor).square().mean().asScalar(), { samples: 6 });
        ddp.step(optimizer);
      }
      // The model computes with DDP's parameters.
      const inModel = model
        .getWeights()
        .toReversed()
        .flatMap((weight) => Array.from(weight.dataSync()));
      expect(inModel).toEqual(Array.from(ddp.parameters));
      return ddp.parameters;
    });
    for (const state of states) expect(state).toEqual(states[0]);
  });

  test('applies a step to its flat parameters, and writes these to the model', async () => {
    await runWorld(2, async (group) => {
      const [weight] = line(1);
      const ddp = await DistributedDataParallel.create([weight], group);
      const optimizer = createOptimizer('sgd', { learningRate: 1 }, 1);
      await ddp.backward(() => weight.sum().asScalar(), { samples: 1 });
      ddp.step(optimizer);
      expect(Array.from(weight.dataSync())).toEqual([0]);
      ddp.parameters.fill(5);
      ddp.writeParameters();
      expect(Array.from(weight.dataSync())).toEqual([5]);
      await ddp.backward(() => weight.sum().asScalar(), { samples: 1 });
      ddp.step(optimizer);
      expect(Array.from(weight.dataSync())).toEqual([4]);
    });
  });

  test('sets the gradient of an unused parameter to zero', async () => {
    await runWorld(2, async (group) => {
      const [weight, bias] = line(1);
      const ddp = await DistributedDataParallel.create([weight, bias], group);
      await ddp.backward(() => weight.mul(3).asScalar(), { samples: 1 });
      expect(Array.from(ddp.gradient)).toEqual([3, 0]);
    });
  });

  const MATCHES_NOT = /appears not to match that of rank 0/;
  const SAME_MODEL = /DDP expects same model across all ranks/;

  test.each([
    [
      'shape of a parameter',
      (rank: number) => zeros([2], rank === 1 ? [3] : [4]),
      /^The parameter 1 \("\d+"\) of rank 1, float32 \[3\], appears not to match that of rank 0, float32 \[4\]\./,
    ],
    ['rank of a parameter', (rank: number) => zeros(rank === 2 ? [4] : [2, 2]), MATCHES_NOT],
    [
      'number of parameters',
      (rank: number) => zeros([2], [2], ...Array.from({ length: rank }, () => [2])),
      /^DDP expects same model across all ranks, but rank 0 has 2 parameters and rank 1 has 3\./,
    ],
    ['existence of parameters', (rank: number) => (rank === 1 ? [] : zeros([2])), SAME_MODEL],
    ['shape of a buffer', (rank: number) => [...zeros([2]), ...frozen([rank + 1])], MATCHES_NOT],
    ['number of buffers', (rank: number) => [...zeros([2]), ...frozen(...(rank === 2 ? [[1]] : []))], SAME_MODEL],
    ['dtype', (rank: number) => [tf.variable(tf.zeros([2], rank === 1 ? 'int32' : 'float32'))], MATCHES_NOT],
  ])('rejects on every rank a model that differs between ranks in the %s', async (_what, variables, message) => {
    await runWorld(3, async (group) => {
      const error = await errorOf(DistributedDataParallel.create(variables(group.rank), group));
      expect(error).toBeInstanceOf(MismatchError);
      expect(error.message).toMatch(message);
    });
  });

  test('rejects options that differ between ranks, and gives missing options their defaults', async () => {
    await runWorld(2, async (group) => {
      const average = group.rank === 0 ? 'ranks' : 'samples';
      const error = await errorOf(DistributedDataParallel.create(zeros([1]), group, { average }));
      expect(error.message).toMatch(/DDP expects same options across all ranks/);
      const options = group.rank === 0 ? ({ average: 'samples', staticGraph: false } as const) : {};
      await expect(DistributedDataParallel.create(zeros([1]), group, options)).resolves.toBeDefined();
    });
  });

  test('rejects an algorithm that the ranks cannot run, and a codec that the algorithm does not support', async () => {
    await runWorld(3, async (group) => {
      const twoLevel = DistributedDataParallel.create(mlp(1), group, { algorithm: 'two-level' });
      await expect(twoLevel).rejects.toThrow(
        /^The all-reduce cannot run: two-level needs groups of equal size, but 3 ranks/,
      );
      group.algorithm = 'doubling';
      const encoded = DistributedDataParallel.create(mlp(1), group, { codec: 'int8' });
      await expect(encoded).rejects.toThrow(/^The all-reduce cannot run: doubling supports no codec/);
    });
  });

  test('rejects variables that are not float32', async () => {
    await runWorld(1, async (group) => {
      const error = await errorOf(DistributedDataParallel.create([tf.variable(tf.zeros([2], 'int32'))], group));
      expect(error).toBeInstanceOf(UsageError);
      expect(error.message).toMatch(/"\d+" is int32/);
    });
  });

  test('rejects in backward if checkGradients throws', async () => {
    await runWorld(1, async (group) => {
      const [weight, bias] = line(1);
      const ddp = await DistributedDataParallel.create([weight, bias], group, { checkGradients: reject });
      await expect(ddp.backward(() => weight.mul(3).add(bias).asScalar(), { samples: 1 })).rejects.toThrow(
        'the GPU failed',
      );
    });
  });

  test('rejects a model without parameters', async () => {
    await runWorld(1, async (group) => {
      await expect(DistributedDataParallel.create([], group)).rejects.toBeInstanceOf(UsageError);
    });
  });

  test.each([1, 2, 3, 4])('has on %i ranks the result of one rank with the whole batch', async (n) => {
    const steps = 4;
    const train = async (worldSize: number, batch: (rank: number, step: number) => tf.Tensor): Promise<number[][]> =>
      runWorld(worldSize, async (group) => {
        const model = mlp(3 + group.rank);
        const ddp = await DistributedDataParallel.create(model, group);
        const optimizer = createOptimizer('momentum', { learningRate: 0.1 }, ddp.layout.size);
        for (let step = 0; step < steps; step++) {
          const inputs = batch(group.rank, step);
          await ddp.backward({ inputs, loss: meanSquare }, { samples: inputs.shape[0] });
          ddp.step(optimizer);
        }
        return weightsOf(model);
      });
    const many = await train(n, (rank, step) => samplesOf(rank, step, rank + 1));
    const [one] = await train(1, (_rank, step) =>
      tf.concat(Array.from({ length: n }, (_, rank) => samplesOf(rank, step, rank + 1))),
    );
    for (const weights of many) expect(weights).toEqual(many[0]);
    expect(relativeDifference(many[0]!, one!)).toBeLessThan(1e-6);
  });

  describe('a pass through the model', () => {
    test('runs in training mode', async () => {
      const model = tf.sequential({
        layers: [tf.layers.dense({ units: 4, inputShape: [4] }), tf.layers.dropout({ rate: 0.5, seed: 1 })],
      });
      await runWorld(1, async (group) => {
        const ddp = await DistributedDataParallel.create(model, group);
        let dropped = 0;
        const loss = (outputs: tf.Tensor): tf.Scalar => {
          dropped = outputs.equal(0).sum().dataSync()[0]!;
          return meanSquare(outputs);
        };
        await ddp.backward({ inputs: tf.ones([8, 4]), loss }, { samples: 8 });
        expect(dropped).toBeGreaterThan(0);
      });
    });

    test('takes and returns lists if the model has several inputs or outputs', async () => {
      const inputs = [tf.input({ shape: [2] }), tf.input({ shape: [3] })];
      const outputs = inputs.map((input) => tf.layers.dense({ units: 1 }).apply(input) as tf.SymbolicTensor);
      const model = tf.model({ inputs, outputs });
      await runWorld(1, async (group) => {
        const ddp = await DistributedDataParallel.create(model, group);
        const inputsOfOne = [tf.ones([1, 2]), tf.ones([1, 3])];
        await ddp.backward({ inputs: inputsOfOne, loss: difference }, { samples: 1 });
        expect(Array.from(ddp.gradient).sort((x, y) => x - y)).toEqual([-1, -1, -1, -1, 1, 1, 1]);
      });
    });

    test('is rejected if DDP trains a list of variables', async () => {
      await runWorld(1, async (group) => {
        const ddp = await DistributedDataParallel.create(line(1), group);
        const error = await errorOf(ddp.backward({ inputs: tf.ones([1]), loss: meanSquare }, { samples: 1 }));
        expect(error.message).toMatch(/a list of variables is trained/);
      });
    });
  });

  describe('average: ranks', () => {
    const values = [[1, 2, 3], [], [10]];
    /** The average over ranks of each rank's mean; a rank without samples counts as zero. */
    const average = (2 + 0 + 10) / 3;

    test.each(['mean', 'sum'] as const)('weights ranks equally if the loss is a %s', async (reduction) => {
      await runWorld(3, async (group) => {
        const mine = values[group.rank]!;
        const [weight, bias] = line(2);
        const ddp = await DistributedDataParallel.create([weight, bias], group, { average: 'ranks' });
        const loss = (): tf.Scalar => weight.mul(tf.tensor1d(mine))[reduction]().asScalar();
        const reduced = await ddp.backward(loss, { samples: mine.length, reduction });
        expect(ddp.gradient[0]).toBeCloseTo(average, 6);
        expect(reduced.loss).toBeCloseTo(2 * average, 6);
        expect(reduced.samples).toBe(4);
      });
    });
  });

  test.each([{ samples: -1 }, { samples: NaN }, { samples: Infinity }, {}, undefined])(
    'rejects %o',
    async (options) => {
      await runWorld(1, async (group) => {
        const ddp = await DistributedDataParallel.create(line(1), group);
        const rejected = ddp.backward(() => tf.scalar(0), options as { samples: number });
        await expect(rejected).rejects.toThrow(/^samples is .* pass the number of samples that the loss covers/);
      });
    },
  );
});
