/** Cases of DistributedDataParallel: PyTorch's tests and documented behaviour. */
import * as tf from '@tensorflow/tfjs';
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { createOptimizer } from '../../src/optim/index.ts';
import { allReduceHook, noopHook, type CommHook } from '../../src/parallel/ddp/commHooks.ts';
import { DistributedDataParallel } from '../../src/parallel/ddp/distributedDataParallel.ts';
import type { DistributedDataParallelOptions } from '../../src/parallel/ddp/options.ts';
import type { JoinOptions } from '../../src/parallel/ddp/join.ts';
import { PeriodicModelAverager } from '../../src/parallel/strategies/modelAverager.ts';
import { createPowerSgdHook } from '../../src/parallel/ddp/powerSgd.ts';
import { SyncBatchNormalization } from '../../src/parallel/syncBatchNorm/syncBatchNorm.ts';
import { EarlyTerminationError, MismatchError, UsageError } from '../../src/util/errors.ts';
import { line, meanSquare, normalized, samplesOf } from '../parallel/models.ts';
import type { ConformanceCase } from './case.ts';
import { expectClose, expectEqual, expectRejection, expectThat, expectThrow } from './expect.ts';
import { filled, range, sumOfRanks } from './values.ts';

const zeros = (...shapes: number[][]): tf.Variable[] => shapes.map((shape) => tf.variable(tf.zeros(shape)));

/** Returns all weights and buffers of a model as one array. */
async function weightsOf(model: tf.LayersModel): Promise<Float32Array> {
  const values = await Promise.all(model.getWeights().map((weight) => weight.data<'float32'>()));
  const all = new Float32Array(values.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of values) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** A model for the cases of join, its inputs, and the numbers of iterations to try. */
interface Setting {
  readonly title: string;
  readonly model: (seed: number) => tf.LayersModel;
  /** Shape of a sample. */
  readonly shape: readonly number[];
  readonly options?: DistributedDataParallelOptions;
  readonly hook?: () => CommHook;
  /**
   * Gradients are reduced in every `every`-th iteration, and accumulated in the other iterations
   * (noSync).
   */
  readonly every?: number;
  /**
   * The next three fields are values to try: the number of ranks that end early, their iterations,
   * and the additional iterations of the other ranks.
   */
  readonly earlies: readonly number[];
  readonly baselines: readonly number[];
  readonly extras: readonly number[];
}

/** A model with two outputs, of which a loss uses only one. */
function twoHeads(seed: number): tf.LayersModel {
  const input = tf.input({ shape: [3] });
  const dense = (unit: number) =>
    tf.layers.dense({ units: 2, kernelInitializer: tf.initializers.glorotUniform({ seed: seed + unit }) });
  const body = dense(0).apply(input);
  const heads = [1, 2].map((unit) => dense(unit).apply(body) as tf.SymbolicTensor);
  return tf.model({ inputs: input, outputs: heads });
}

/** A model with kernels of 1 MiB, each of which fills a bucket. */
function convolutional(seed: number): tf.LayersModel {
  const layer = (k: number) => ({
    filters: 512,
    kernelSize: 1,
    useBias: false,
    kernelInitializer: tf.initializers.glorotUniform({ seed: seed + k }),
  });
  return tf.sequential({
    layers: [
      tf.layers.conv2d({ ...layer(0), inputShape: [1, 1, 512] }),
      tf.layers.conv2d(layer(1)),
      tf.layers.flatten(),
    ],
  });
}

const linear =
  (size: number) =>
  (seed: number): tf.LayersModel =>
    tf.sequential({
      layers: [
        tf.layers.dense({
          units: size,
          inputShape: [size],
          kernelInitializer: tf.initializers.glorotUniform({ seed }),
        }),
      ],
    });

/** GRID has all combinations of torch's tests. LARGE has one combination, for slow models. */
const GRID = { earlies: [1, 2], baselines: [0, 5], extras: [2, 3, 10] };
const LARGE = { earlies: [2], baselines: [0], extras: [2] };
const SMALL_BUCKETS = { firstBucketBytes: 4, bucketCapBytes: 64 };

const SETTINGS: readonly Setting[] = [
  { title: 'batch normalization', model: normalized, shape: [3], options: SMALL_BUCKETS, ...GRID },
  { title: 'many buckets of 1 MiB', model: convolutional, shape: [1, 1, 512], ...LARGE },
  { title: 'a layer of 1000 x 1000', model: linear(1000), shape: [1000], ...LARGE },
  { title: 'unused parameters', model: twoHeads, shape: [3], options: { findUnusedParameters: true }, ...GRID },
  {
    title: 'the PowerSGD hook',
    model: linear(20),
    shape: [20],
    ...GRID,
    hook: () => createPowerSgdHook({ startPowerSgdIter: 2 }),
  },
  { title: 'noSync, every 2nd iteration reduced', model: normalized, shape: [3], every: 2, ...GRID },
  { title: 'noSync, every 3rd iteration reduced', model: normalized, shape: [3], every: 3, ...GRID },
];

/**
 * Trains for `iterations` steps on this rank inside join. Returns the weights at the end of the
 * loop and the weights after join.
 */
async function trainInJoin(
  group: ProcessGroup,
  iterations: number,
  { model: build, shape, options = {}, hook, every = 1 }: Setting,
  joinOptions: JoinOptions = {},
): Promise<{ done: number; inLoop: Float32Array; after: Float32Array; error: unknown }> {
  const model = build(group.rank);
  const ddp = await DistributedDataParallel.create(model, group, options);
  if (hook) ddp.registerCommHook(hook());
  const optimizer = createOptimizer('sgd', { learningRate: 0.01 }, ddp.layout.size);
  let done = 0;
  let inLoop: Float32Array = new Float32Array();
  let error: unknown = null;
  const width = shape.reduce((a, b) => a * b);
  const pass = () => {
    // Even iterations use only the model's first output, odd iterations only the second.
    const loss = (outputs: tf.Tensor | tf.Tensor[]): tf.Scalar =>
      meanSquare(Array.isArray(outputs) ? outputs[done % 2]! : outputs);
    const inputs = samplesOf(group.rank, done, 2, width).reshape([2, ...shape]);
    return ddp.backward({ inputs, loss }, { samples: 2 });
  };
  const main = async (): Promise<void> => {
    for (; done < iterations; done++) {
      if ((done + 1) % every === 0) {
        await pass();
        ddp.step(optimizer);
      } else {
        await ddp.noSync(pass);
      }
    }
    inLoop = await weightsOf(model);
  };
  try {
    await ddp.join(main, joinOptions);
  } catch (reason) {
    error = reason;
  }
  const after = await weightsOf(model);
  ddp.dispose();
  model.dispose();
  return { done, inLoop, after, error };
}

/**
 * Returns the number of iterations of three ranks, of which `early` (1 or 2) end before the others.
 * If 2 end early, rank 1 has more iterations than rank 0.
 */
function iterationsOf(early: number, baseline: number, extra: number): number[] {
  return [baseline, early === 2 ? baseline + Math.floor(extra / 2) : baseline + extra, baseline + extra];
}

async function joins(group: ProcessGroup, setting: Setting): Promise<void> {
  for (const early of setting.earlies) {
    for (const baseline of setting.baselines) {
      for (const extra of setting.extras) {
        const iterations = iterationsOf(early, baseline, extra);
        const where = `iterations ${iterations.join(', ')}`;
        const { done, inLoop, after, error } = await trainInJoin(group, iterations[group.rank]!, setting);
        expectEqual([error, done], [null, iterations[group.rank]], `${where}: error, and iterations done`);
        // All ranks receive the model of the rank with the most iterations, or of the highest such
        // rank.
        const last = iterations.lastIndexOf(Math.max(...iterations));
        const authoritative = group.rank === last ? inLoop : new Float32Array(after.length);
        expectEqual(after, await group.broadcast(authoritative, last), `${where}: model after join`);
      }
    }
  }
}

/**
 * Trains inside join with a gradient of 50 in each iteration: 3 iterations on rank 0, and 5 on each
 * other rank. Returns the averaged gradients that this rank sees.
 */
async function averagesInJoin(group: ProcessGroup, joinOptions: JoinOptions, hook: CommHook | null): Promise<number[]> {
  const [weight] = line(1);
  const ddp = await DistributedDataParallel.create([weight], group, { average: 'ranks' });
  if (hook) ddp.registerCommHook(hook);
  const seen: number[] = [];
  await ddp.join(async () => {
    for (let i = 0; i < (group.rank === 0 ? 3 : 5); i++) {
      await ddp.backward(() => weight.mul(50).sum().asScalar(), { samples: 1 + group.rank });
      seen.push(ddp.gradient[0]!);
    }
  }, joinOptions);
  return seen;
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
    number: 42,
    title: 'join divides gradients by the initial or by the effective world size',
    worlds: [2, 3, 4],
    inTabs: true,
    run: async (group, n) => {
      const after = Math.fround((50 * (n - 1)) / n);
      for (const hook of [null, allReduceHook]) {
        const tolerance = hook ? 1e-6 : 0;
        const initial = await averagesInJoin(group, {}, hook);
        const expected = [50, 50, 50, ...(group.rank === 0 ? [] : [after, after])];
        expectClose(initial, expected, tolerance, `initial world size, ${hook ? 'a hook' : 'no hook'}`);
        const effective = await averagesInJoin(group, { divideByInitialWorldSize: false }, hook);
        expectClose(
          effective,
          expected.map(() => 50),
          tolerance,
          `effective world size, ${hook ? 'a hook' : 'no hook'}`,
        );
      }
    },
  },
  ...SETTINGS.map((setting): ConformanceCase => ({
    number: 43,
    title: `join trains on uneven inputs with ${setting.title}`,
    worlds: [3],
    run: (group) => joins(group, setting),
  })),
  // All combinations for the slow models. They are split into parts that each end before the
  // runner's deadline.
  ...SETTINGS.filter(({ extras }) => extras === LARGE.extras).flatMap((setting) =>
    GRID.earlies.flatMap((early) =>
      GRID.baselines.map((baseline): ConformanceCase => {
        const title = `join trains on uneven inputs with ${setting.title}; ${early} ranks end early, after ${baseline} iterations or more`;
        const part = { ...setting, ...GRID, earlies: [early], baselines: [baseline] };
        return { number: 43, title, worlds: [3], isLong: true, run: (group) => joins(group, part) };
      }),
    ),
  ),
  {
    number: 43,
    title: 'join ends with equal weights on 2, 4 and 5 ranks, even if some ranks have no inputs',
    worlds: [2, 4, 5],
    inTabs: true,
    run: async (group, n) => {
      for (const iterations of [
        range(n),
        range(n).reverse(),
        range(n).map((rank) => (rank === 1 ? 3 : 0)),
        filled(n, 0),
      ]) {
        const { after } = await trainInJoin(group, iterations[group.rank]!, SETTINGS[0]!);
        const all = await group.allGather(after);
        for (const weights of all) expectEqual(weights, all[0], `iterations ${iterations.join(', ')}`);
      }
    },
  },
  {
    number: 43,
    title: 'join with throwOnEarlyTermination stops all ranks when the first rank has no more inputs',
    worlds: [3],
    inTabs: true,
    run: async (group) => {
      for (const [early, baseline, extra] of [
        [1, 0, 2],
        [1, 5, 3],
        [2, 5, 10],
      ] as const) {
        const iterations = iterationsOf(early, baseline, extra);
        const options = { throwOnEarlyTermination: true };
        const { done, error } = await trainInJoin(group, iterations[group.rank]!, SETTINGS[0]!, options);
        const where = `iterations ${iterations.join(', ')}`;
        expectThat(
          error instanceof EarlyTerminationError,
          `${where}: expected EarlyTerminationError, got ${String(error)}`,
        );
        expectEqual(done, Math.min(...iterations), `${where}: iterations done`);
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
