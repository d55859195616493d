// Distributed training, from PyTorch's "Writing Distributed Applications", without DDP, on
// generated digits:
// https://docs.pytorch.org/tutorials/intermediate/dist_tuto.html#distributed-training
// Expected output: a loss that falls on every rank. The losses differ, because each rank has its
// own data.
import * as tf from '@tensorflow/tfjs';
import { DataPartitioner, loadData, parseJob, ReduceOp, type ProcessGroup } from '../src/index.ts'; // from 'peergrad'

export const worldSize = 2;
const SEED = 1234; // of the order of samples and of the first parameters, which must be the same on every rank
const SAMPLES = 2048;
const PIXELS = 28 * 28;
const EPOCHS = 3;

/** Returns this rank's part of the shuffled samples. */
function partitionDataset({ rank, worldSize: parts }: ProcessGroup): Uint32Array {
  const fractions = Array.from({ length: parts }, () => 1 / parts);
  return new DataPartitioner(SAMPLES, fractions, SEED).use(rank).indices;
}

/**
 * Averages gradients one after the other, because all ranks must call collectives in the same
 * order.
 */
async function averageGradients(gradients: tf.NamedTensorMap, group: ProcessGroup) {
  const averaged: { name: string; tensor: tf.Tensor }[] = [];
  for (const [name, gradient] of Object.entries(gradients)) {
    const values = await group.allReduce(new Float32Array(await gradient.data()), { op: ReduceOp.AVG });
    averaged.push({ name, tensor: tf.tensor(values, gradient.shape) });
  }
  return averaged;
}

export async function main(group: ProcessGroup, print: (line: string) => void): Promise<void> {
  const { train } = await loadData(parseJob({ job: 'digits', seed: SEED }), { baseUrl: '' });
  const partition = partitionDataset(group);
  const pixels = new Float32Array(partition.length * PIXELS);
  const labels = new Int32Array(partition.length);
  await train.read(partition, pixels, labels);
  const inputs = tf.tensor2d(pixels, [partition.length, PIXELS]);
  const targets = tf.oneHot(labels, train.classes);
  const kernelInitializer = tf.initializers.glorotUniform({ seed: SEED });
  const model = tf.sequential();
  model.add(tf.layers.dense({ units: 32, inputShape: [PIXELS], activation: 'relu', kernelInitializer }));
  model.add(tf.layers.dense({ units: train.classes, kernelInitializer }));
  const optimizer = tf.train.momentum(0.1, 0.5);
  const batchSize = Math.floor(128 / group.worldSize);
  const batches = Math.floor(partition.length / batchSize);
  for (let epoch = 0; epoch < EPOCHS; epoch++) {
    let epochLoss = 0;
    for (let start = 0; start < batches * batchSize; start += batchSize) {
      const { value, grads } = optimizer.computeGradients(() => {
        const logits = model.apply(inputs.slice(start, batchSize)) as tf.Tensor;
        return tf.losses.softmaxCrossEntropy(targets.slice(start, batchSize), logits).asScalar();
      });
      const averaged = await averageGradients(grads, group);
      optimizer.applyGradients(averaged);
      epochLoss += (await value.data())[0]!;
      tf.dispose([value, grads, averaged]);
    }
    print(`Rank ${group.rank}, epoch ${epoch}: ${(epochLoss / batches).toFixed(4)}`);
  }
}
