import * as tf from '@tensorflow/tfjs';
import { DistributedDataParallel } from '../../../src/parallel/ddp/distributedDataParallel.ts';
import { SyncBatchNormalization } from '../../../src/parallel/backward/syncBatchNorm.ts';
import { runWorld } from '../../../src/testing/index.ts';
import { createRng } from '../../../src/util/rng.ts';
import type { Suite } from '../suite.ts';

const SAMPLES = 11;
const SHAPE: [number, number, number] = [6, 6, 2];
const OUTPUTS = 3;
/** Number of samples of each rank, in each case. */
const SPLITS = [
  [5, 6],
  [1, 0, 7, 3],
];

/**
 * Loss and gradients of batch normalization over all ranks' samples, compared with PyTorch's for
 * the whole batch. In one case, a rank has no samples.
 */
export const syncBatchNorm: Suite = {
  name: 'syncBatchNorm',
  tolerance: 1e-6,
  compute: async () => {
    const rng = createRng(2);
    const inputs = Array.from({ length: SAMPLES * 72 }, () => Math.fround(rng.next() * 2 + 5));
    const targets = Array.from({ length: SAMPLES * OUTPUTS }, () => Math.fround(rng.next()));
    const model = build();
    const weights = model.trainableWeights.map((weight) => weight.read());
    const variables = weights.map((weight) => ({ shape: weight.shape, values: Array.from(weight.dataSync()) }));
    const splits = [];
    for (const split of SPLITS) splits.push({ split, ...(await differentiated(split, inputs, targets)) });
    return { inputs, targets, variables, splits };
  },
};

function build(): tf.LayersModel {
  let seed = 1;
  const random = () => tf.initializers.randomNormal({ stddev: 0.5, seed: seed++ });
  const normalize = (options: object = {}): SyncBatchNormalization =>
    new SyncBatchNormalization({ epsilon: 1e-3, gammaInitializer: random(), betaInitializer: random(), ...options });
  const input = tf.input({ shape: SHAPE });
  const layers: tf.layers.Layer[] = [
    normalize(),
    tf.layers.conv2d({ filters: 4, kernelSize: 3, kernelInitializer: random(), activation: 'relu' }),
    normalize({ scale: false }),
    normalize({ center: false }),
    tf.layers.flatten(),
    tf.layers.dense({ units: OUTPUTS, kernelInitializer: random() }),
    normalize(),
  ];
  const output = layers.reduce((x, layer) => layer.apply(x) as tf.SymbolicTensor, input);
  return tf.model({ inputs: input, outputs: output });
}

async function differentiated(
  split: number[],
  inputs: number[],
  targets: number[],
): Promise<{ loss: number; gradients: number[][] }> {
  const [first] = await runWorld(split.length, async (group) => {
    const samples = split[group.rank]!;
    const from = split.slice(0, group.rank).reduce((sum, count) => sum + count, 0);
    const x = tf.tensor4d(inputs.slice(from * 72, (from + samples) * 72), [samples, ...SHAPE]);
    const y = tf.tensor2d(targets.slice(from * OUTPUTS, (from + samples) * OUTPUTS), [samples, OUTPUTS]);
    const ddp = await DistributedDataParallel.create(build(), group);
    const loss = (output: tf.Tensor): tf.Scalar => tf.losses.meanSquaredError(y, output).asScalar();
    const reduced = await ddp.backward({ inputs: x, loss }, { samples });
    const gradients: number[][] = [];
    for (const { parameter, offset, size } of ddp.layout.slots) {
      gradients[parameter] = [...ddp.gradient.subarray(offset, offset + size)];
    }
    return { loss: reduced.loss, gradients };
  });
  return first!;
}
