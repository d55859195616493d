/** TensorFlow.js frees nothing by itself, so no kind of training may leave tensors behind. */
import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { createOptimizer } from '../../../src/optim/index.ts';
import { allReduceHook } from '../../../src/parallel/ddp/commHooks.ts';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import type { DistributedDataParallelOptions } from '../../../src/parallel/ddp/options.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { meanSquare, mlp, normalized } from '../models.ts';

type Step = (ddp: DistributedDataParallel, model: tf.LayersModel, inputs: tf.Tensor, rank: number) => Promise<unknown>;

const plain: Step = (ddp, _model, inputs) => ddp.backward({ inputs, loss: meanSquare }, { samples: 2 });

const MODES: [string, (seed: number) => tf.LayersModel, DistributedDataParallelOptions, Step][] = [
  ['passes through the model', mlp, {}, plain],
  [
    'loss functions',
    mlp,
    {},
    (ddp, model, inputs) => ddp.backward(() => meanSquare(model.apply(inputs) as tf.Tensor), { samples: 2 }),
  ],
  ['buffers', normalized, {}, plain],
  ['averages over ranks', normalized, { average: 'ranks' }, plain],
  [
    'unused parameters',
    mlp,
    { findUnusedParameters: true },
    (ddp, model) => ddp.backward(() => (model.getWeights()[0] as tf.Variable).sum().asScalar(), { samples: 2 }),
  ],
  ['a static graph', mlp, { staticGraph: true }, plain],
  [
    'a rank without samples',
    normalized,
    {},
    (ddp, _model, inputs, rank) => ddp.backward({ inputs, loss: meanSquare }, { samples: rank }),
  ],
  [
    'noSync',
    normalized,
    {},
    async (ddp, ...rest) => {
      await ddp.noSync(() => plain(ddp, ...rest));
      await plain(ddp, ...rest);
    },
  ],
  [
    'join',
    normalized,
    {},
    (ddp, model, inputs, rank) =>
      ddp.join(async () => {
        if (rank === 0) await plain(ddp, model, inputs, rank);
      }),
  ],
];

test.each(MODES)('100 steps with %s leave no tensors', async (_what, build, options, step) => {
  const WARM_UP = 2;
  const STEPS = 100;
  for (const hooked of [false, true]) {
    const counts: number[] = [];
    await runWorld(2, async (group) => {
      const model = build(group.rank);
      const ddp = await DistributedDataParallel.create(model, group, options);
      if (hooked) ddp.registerCommHook(allReduceHook);
      const optimizer = createOptimizer('sgd', { learningRate: 1e-3 }, ddp.layout.size);
      const inputs = tf.ones([2, 3]);
      for (let i = 0; i < WARM_UP + STEPS; i++) {
        await step(ddp, model, inputs, group.rank);
        ddp.step(optimizer);
        ddp.clipGradNorm(1);
        // Ranks share one TensorFlow.js, so both must be between two steps.
        await group.barrier();
        if (group.rank === 0 && i >= WARM_UP - 1) counts.push(tf.memory().numTensors);
        await group.barrier();
      }
      ddp.dispose();
      model.dispose();
      inputs.dispose();
    });
    expect(counts).toHaveLength(STEPS + 1);
    expect(new Set(counts).size).toBe(1);
  }
});
