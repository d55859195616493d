/** Cases of DistributedDataParallel's join: PyTorch's tests and documented behaviour. */
import * as tf from '@tensorflow/tfjs';
import type { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { createOptimizer } from '../../src/optim/index.ts';
import { allReduceHook, type CommHook } from '../../src/parallel/ddp/commHooks.ts';
import { DistributedDataParallel } from '../../src/parallel/ddp/distributedDataParallel.ts';
import type { DistributedDataParallelOptions } from '../../src/parallel/ddp/options.ts';
import type { JoinOptions } from '../../src/parallel/ddp/join.ts';
import { createPowerSgdHook } from '../../src/parallel/ddp/powerSgd.ts';
import { EarlyTerminationError } from '../../src/util/errors.ts';
import { line, meanSquare, normalized, samplesOf } from '../parallel/models.ts';
import type { ConformanceCase } from './case.ts';
import { SMALL_BUCKETS, weightsOf } from './ddp.ts';
import { expectClose, expectEqual, expectThat } from './expect.ts';
import { filled, range } from './values.ts';

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

export const JOIN_CASES: readonly ConformanceCase[] = [
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
];
