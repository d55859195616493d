// Distributed training, from PyTorch's "Writing Distributed Applications", without DDP:
// https://docs.pytorch.org/tutorials/intermediate/dist_tuto.html#distributed-training
// `--data FOLDER` trains on MNIST's files instead of generated digits. The model is a small one.
// Expected output: a loss that falls on every rank. The losses differ, because each rank has its
// own data.
import * as tf from '@tensorflow/tfjs';
import { DataLoader, DataPartitioner, loadData, parseJob, ReduceOp, type ProcessGroup } from '../src/index.ts'; // from 'peergrad'
import type { ExamplePage } from './example.ts';

export const worldSize = 2;
const SEED = 1234; // the same on every rank, for equal parameters and one order of the samples

/** Returns the batches of this rank's part of the samples. */
async function partitionDataset({ rank, worldSize: size }: ProcessGroup, folder: string | null) {
  const job = folder === null ? { job: 'digits', seed: SEED } : { job: 'mnist', data: { kind: 'url', url: folder } };
  const { train } = await loadData(parseJob(job), { baseUrl: '' });
  const samples = folder === null ? 2048 : train.size;
  const fractions = Array.from({ length: size }, () => 1 / size);
  const partition = new DataPartitioner(samples, fractions, SEED).use(rank);
  const load = async (indices: Int32Array) => {
    const pixels = new Float32Array(indices.length * 28 * 28);
    const labels = new Int32Array(indices.length);
    await train.read(indices, pixels, labels);
    const normalized = pixels.map((pixel) => (pixel - 0.1307) / 0.3081);
    return { inputs: tf.tensor2d(normalized, [indices.length, 28 * 28]), targets: tf.oneHot(labels, 10) };
  };
  return new DataLoader(load, { sampler: partition, batchSize: Math.floor(128 / size) });
}

/** Averages gradients one after the other: all ranks must call collectives in the same order. */
async function averageGradients(gradients: tf.NamedTensorMap, group: ProcessGroup) {
  const averaged: { name: string; tensor: tf.Tensor }[] = [];
  for (const [name, gradient] of Object.entries(gradients)) {
    const values = await group.allReduce(new Float32Array(await gradient.data()), { op: ReduceOp.AVG });
    averaged.push({ name, tensor: tf.tensor(values, gradient.shape) });
  }
  return averaged;
}

export async function main(group: ProcessGroup, print: (line: string) => void, { data }: ExamplePage) {
  const trainSet = await partitionDataset(group, data);
  const kernelInitializer = tf.initializers.glorotUniform({ seed: SEED });
  const model = tf.sequential();
  model.add(tf.layers.dense({ units: 32, inputShape: [28 * 28], activation: 'relu', kernelInitializer }));
  model.add(tf.layers.dense({ units: 10, kernelInitializer }));
  const optimizer = tf.train.momentum(0.01, 0.5);
  for (let epoch = 0; epoch < 3; epoch++) {
    let epochLoss = 0;
    for await (const { inputs, targets } of trainSet) {
      const loss = () => tf.losses.softmaxCrossEntropy(targets, model.apply(inputs) as tf.Tensor).asScalar();
      const { value, grads } = optimizer.computeGradients(loss);
      const averaged = await averageGradients(grads, group);
      optimizer.applyGradients(averaged);
      epochLoss += (await value.data())[0]!;
      tf.dispose([inputs, targets, value, grads, averaged]);
    }
    print(`Rank ${group.rank}, epoch ${epoch}: ${(epochLoss / trainSet.length).toFixed(4)}`);
  }
}
