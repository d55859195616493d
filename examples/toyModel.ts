// PyTorch's DDP tutorial:
// https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html
// A ToyModel (10-10-5) learns 20 random inputs per rank with DistributedDataParallel.
// Expected output: a loss that falls, and equal replicas, although each rank created a random
// model.
import * as tf from '@tensorflow/tfjs';
import { createOptimizer, DistributedDataParallel, type ProcessGroup } from '../src/index.ts'; // from 'peergrad'

export const worldSize = 2;

const STEPS = 5;

export async function main(group: ProcessGroup, print: (line: string) => void): Promise<void> {
  const model = tf.sequential({
    layers: [
      tf.layers.dense({ units: 10, inputShape: [10], activation: 'relu' }), // net1
      tf.layers.dense({ units: 5 }), // net2
    ],
  });
  const ddp = await DistributedDataParallel.create(model, group);
  const optimizer = createOptimizer('sgd', { learningRate: 0.001 }, ddp.layout.size);

  // The seed depends on the rank, so each rank has different data.
  const inputs = tf.randomNormal([20, 10], 0, 1, 'float32', 2 * group.rank + 1);
  const labels = tf.randomNormal([20, 5], 0, 1, 'float32', 2 * group.rank + 2);
  const loss = (): tf.Scalar => tf.losses.meanSquaredError(labels, model.apply(inputs) as tf.Tensor).asScalar();

  for (let step = 0; step < STEPS; step++) {
    const reduced = await ddp.backward(loss, { samples: 20 });
    ddp.step(optimizer);
    print(`step ${step}: loss ${reduced.loss.toFixed(6)}`);
  }

  const replicas = await group.allGather(ddp.parameters);
  const isEqual = replicas.every((replica) => replica.every((value, i) => value === ddp.parameters[i]));
  print(`replicas are ${isEqual ? 'equal' : 'different'}`);
}
