/** Cases of DistributedDataParallel without join: PyTorch's tests and documented behaviour. */
import * as tf from '@tensorflow/tfjs';
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { createOptimizer } from '../../src/optim/index.ts';
import { noopHook } from '../../src/parallel/ddp/commHooks.ts';
import { DistributedDataParallel } from '../../src/parallel/ddp/distributedDataParallel.ts';
import { PeriodicModelAverager } from '../../src/parallel/strategies/modelAverager.ts';
import { SyncBatchNormalization } from '../../src/parallel/backward/syncBatchNorm.ts';
import { MismatchError, UsageError } from '../../src/util/errors.ts';
import { line, meanSquare, normalized, samplesOf } from '../parallel/models.ts';
import type { ConformanceCase } from './case.ts';
import { expectClose, expectEqual, expectRejection, expectThat, expectThrow } from './expect.ts';
import { filled, range, sumOfRanks } from './values.ts';

export const SMALL_BUCKETS = { firstBucketBytes: 4, bucketCapBytes: 64 };

const zeros = (...shapes: number[][]): tf.Variable[] => shapes.map((shape) => tf.variable(tf.zeros(shape)));

/** Returns all weights and buffers of a model as one array. */
export async function weightsOf(model: tf.LayersModel): Promise<Float32Array> {
  const values = await Promise.all(model.getWeights().map((weight) => weight.data<'float32'>()));
  const all = new Float32Array(values.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of values) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Returns the gradients in the order of parameters, which have one element each. */
function gradientsOf({ layout, gradient }: DistributedDataParallel): number[] {
  return layout.slots.toSorted((a, b) => a.parameter - b.parameter).map(({ offset }) => gradient[offset]!);
}

/** Creates a model whose final layer is `layer`. */
function ending(layer: tf.layers.Layer): tf.LayersModel {
  return tf.sequential({
    layers: [tf.layers.dense({ units: 3, inputShape: [3], kernelInitializer: 'identity' }), layer],
  });
}

/**
 * A loss for normalized outputs. Their sum and their sum of squares are constant, so those would
 * have no gradient.
 */
const sumOfCubes = (outputs: tf.Tensor): tf.Scalar => outputs.mul(outputs).mul(outputs).sum<tf.Scalar>();

export const DDP_CASES: readonly ConformanceCase[] = [
  {
    number: 38,
    title: 'DDP averages the gradients of a linear model over ranks or samples',
    worlds: [1, 2, 3, 4, 5],
    inTabs: true,
    run: async (group, n) => {
      for (const average of ['ranks', 'samples'] as const) {
        const [weight, bias] = line(1);
        const ddp = await DistributedDataParallel.create([weight, bias], group, { average });
        for (let i = 0; i < 5; i++) {
          await ddp.backward(() => weight.mul(group.rank).add(bias).sum().asScalar(), { samples: 1 });
          expectEqual(gradientsOf(ddp), [Math.fround(sumOfRanks(n) / n), 1], `average of ${average}, iteration ${i}`);
        }
      }
    },
  },
  {
    number: 40,
    title: 'DDP fails on every rank if a static graph changes, or if models differ between ranks',
    worlds: [2, 3, 4],
    inTabs: true,
    needsWorld: true,
    run: async (world, n) => {
      for (const odd of range(n)) {
        const isOdd = world.rank === odd;
        // Each trial makes its group fail, so it has its own group.
        const trials: [what: string, message: string, run: (group: ProcessGroup) => Promise<unknown>][] = [
          [
            'the graph',
            'training graph has changed',
            async (group) => {
              const [weight, bias] = line(1);
              const ddp = await DistributedDataParallel.create([weight, bias], group, { staticGraph: true });
              const both = (): tf.Scalar => weight.add(bias).sum().asScalar();
              await ddp.backward(both, { samples: 1 });
              await ddp.backward(isOdd ? () => weight.sum().asScalar() : both, { samples: 1 });
            },
          ],
          [
            'a shape',
            'appears not to match',
            (group) => DistributedDataParallel.create(zeros([2], isOdd ? [3] : [4]), group),
          ],
          [
            'the number of parameters',
            'DDP expects same model across all ranks',
            (group) => DistributedDataParallel.create(zeros(...range(isOdd ? 3 : 2).map(() => [2])), group),
          ],
        ];
        for (const [what, message, run] of trials) {
          const group = await world.newGroup(range(n));
          await expectRejection(run(group), MismatchError, message, `${what} differs on rank ${odd}`);
        }
      }
    },
  },
  {
    number: 45,
    title: 'PeriodicModelAverager averages parameters once per period after the warm-up, and not before',
    worlds: [1, 2, 3, 4, 7],
    inTabs: true,
    run: async (group, n) => {
      const period = 4;
      for (const warmupSteps of range(12, 15)) {
        const averager = new PeriodicModelAverager({ period, warmupSteps });
        for (const step of range(20)) {
          const parameters = filled(10, group.rank);
          await averager.averageParameters(parameters, group);
          const isDue = step >= warmupSteps && (step - warmupSteps) % period === 0;
          expectEqual(
            parameters,
            filled(10, isDue ? sumOfRanks(n) / n : group.rank),
            `warm-up ${warmupSteps}, step ${step}`,
          );
        }
      }
    },
  },
  {
    number: 50,
    title: 'DDP weights the gradients of ranks by their numbers of samples, 8 and 18',
    worlds: [2],
    inTabs: true,
    run: async (group) => {
      const [weight] = line(1);
      const ddp = await DistributedDataParallel.create([weight], group);
      const mine = [10, -3][group.rank]!;
      await ddp.backward(() => weight.mul(mine).sum().asScalar(), { samples: [8, 18][group.rank]! });
      expectClose(ddp.gradient, [(8 * 10 + 18 * -3) / 26], 1e-6, 'gradient');
    },
  },
  {
    number: 180,
    title: 'DDP broadcasts the parameters and buffers of rank 0, and after steps they are still equal on all ranks',
    worlds: [1, 2, 3, 4],
    inTabs: true,
    run: async (group) => {
      const model = normalized(group.rank);
      const ddp = await DistributedDataParallel.create(model, group, SMALL_BUCKETS);
      const first = await weightsOf(normalized(0));
      const before = await weightsOf(model);
      expectEqual(before, first, 'parameters and buffers at first');
      const optimizer = createOptimizer('adam', { learningRate: 0.1 }, ddp.layout.size);
      for (const step of range(3)) {
        await ddp.backward({ inputs: samplesOf(group.rank, step, 4), loss: meanSquare }, { samples: 4 });
        ddp.step(optimizer);
        const mine = await weightsOf(model);
        expectEqual(mine, await group.broadcast(mine.slice(), 0), `parameters and buffers after step ${step}`);
      }
    },
  },
  {
    number: 181,
    title: 'a DDP step changes a parameter that only one rank uses, and does not change a parameter that no rank uses',
    worlds: [2, 3],
    inTabs: true,
    run: async (group, n) => {
      const variables = [1, 2, 3].map((value) => tf.variable(tf.scalar(value)));
      const ddp = await DistributedDataParallel.create(variables, group, {
        average: 'ranks',
        findUnusedParameters: true,
      });
      const [everywhere, here] = variables as [tf.Variable, tf.Variable, tf.Variable];
      // Only rank 0 uses the second parameter.
      const loss = (): tf.Scalar =>
        everywhere
          .mul(6)
          .add(group.rank === 0 ? here.mul(6) : 0)
          .asScalar();
      const optimizer = createOptimizer('adamw', { learningRate: 0.1, weightDecay: 0.5 }, ddp.layout.size);
      await ddp.backward(loss, { samples: 1 });
      expectEqual(gradientsOf(ddp).slice(0, 2), [6, 6 / n], 'average of used parameters');
      ddp.step(optimizer);
      const [a, b, c] = await Promise.all(variables.map(async (variable) => (await variable.data())[0]!));
      expectThat(a !== 1 && b !== 2, `a step must change each parameter that any rank uses: ${a}, ${b}`);
      expectEqual(c, 3, 'a parameter that no rank uses');
    },
  },
  {
    number: 182,
    title: 'noSync accumulates gradients without sending, and the next backward pass averages their sum',
    worlds: [1, 2, 3, 4],
    inTabs: true,
    run: async (group, n) => {
      const [weight] = line(1);
      const ddp = await DistributedDataParallel.create([weight], group, { average: 'ranks' });
      const pass = (factor: number) => ddp.backward(() => weight.mul(factor).sum().asScalar(), { samples: 1 });
      await pass(1);
      const sent = group.bytesSent;
      await ddp.noSync(async () => {
        await pass(10 + group.rank);
        await pass(100);
      });
      expectEqual(group.bytesSent, sent, 'bytes sent after passes in noSync');
      await pass(1000);
      expectClose(ddp.gradient, [1110 + (n - 1) / 2], 1e-6, 'gradient');
    },
  },
  {
    number: 183,
    title: 'a comm hook replaces the averaging of DDP, and a second hook is rejected',
    worlds: [1, 2, 3],
    inTabs: true,
    run: async (group, n) => {
      const [weight, bias] = line(1);
      const ddp = await DistributedDataParallel.create([weight, bias], group, { ...SMALL_BUCKETS, average: 'ranks' });
      const buckets: number[] = [];
      ddp.registerCommHook((bucket, given) => {
        expectThat(given === group, 'the hook receives the group of DDP');
        buckets.push(bucket.index);
        bucket.buffer.fill(42 + group.rank);
        return Promise.resolve();
      });
      await ddp.backward(() => weight.add(bias).sum().asScalar(), { samples: 1 });
      expectEqual(gradientsOf(ddp), [42 + group.rank, 42 + group.rank], 'result of the hook');
      expectEqual(buckets, range(ddp.layout.buckets.length), 'buckets, in order');
      expectThrow(() => ddp.registerCommHook(noopHook), UsageError, 'already registered', 'a second hook');
      expectEqual(await group.allReduce(Float32Array.of(1)), Float32Array.of(n), 'the group is usable');
    },
  },
  {
    number: 184,
    title: 'SyncBatchNormalization uses the statistics of the samples of all ranks, even if one rank has no samples',
    worlds: [2, 3, 4],
    inTabs: true,
    run: async (group, n) => {
      // The rank with the highest number has no samples.
      const counts = range(n).map((rank) => (rank === n - 1 ? 0 : 2 + rank));
      const inputs = counts.map((count, rank) => samplesOf(rank, 7, count).mul(3).add(rank));
      const distributed = ending(new SyncBatchNormalization());
      const ddp = await DistributedDataParallel.create(distributed, group);
      const options = { samples: counts[group.rank]!, reduction: 'sum' } as const;
      const { loss: value } = await ddp.backward({ inputs: inputs[group.rank]!, loss: sumOfCubes }, options);
      const reference = ending(tf.layers.batchNormalization());
      const total = counts.reduce((a, b) => a + b);
      const alone = tf.tidy(() =>
        sumOfCubes(reference.apply(tf.concat(inputs), { training: true }) as tf.Tensor).div(total),
      );
      expectClose([value], await alone.data(), 1e-4, 'loss, compared with one rank that has all samples');
      // The weights include the moving averages.
      const [mine, theirs] = await Promise.all([weightsOf(distributed), weightsOf(reference)]);
      expectClose(mine, theirs, 1e-4, 'weights and averages, compared with one rank that has all samples');
    },
  },
];
