// The DDP tutorial's "Combining DDP with Model Parallelism":
// https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html
// Four ranks are a mesh of two replicas with two stages each. Ranks with the same stage average
// their gradients.
// Expected output: a loss that falls and is equal on all ranks, and equal stages of both replicas.
import * as tf from '@tensorflow/tfjs';
import { createOptimizer, initDeviceMesh, PipelineStage, Schedule1F1B, type ProcessGroup } from '../src/index.ts'; // from 'peergrad'

export const worldSize = 4;

const STEPS = 5;

export async function main(group: ProcessGroup, print: (line: string) => void): Promise<void> {
  const mesh = await initDeviceMesh(group, { data: 2, pipeline: 2 });
  const layers = [
    tf.layers.dense({ name: 'net1', units: 10, inputShape: [10], activation: 'relu' }),
    tf.layers.dense({ name: 'net2', units: 5 }),
  ];
  const stage = await PipelineStage.create(layers, mesh.getGroup('pipeline'), {
    stages: [1, 1],
    optimizer: (size) => createOptimizer('sgd', { learningRate: 0.001 }, size),
    dataGroup: mesh.getGroup('data'),
  });
  const schedule = new Schedule1F1B(stage, {
    microBatches: 4,
    loss: (outputs, targets) => tf.losses.meanSquaredError(targets, outputs).asScalar(),
  });
  const replica = mesh.getLocalRank('data');
  print(`replica ${replica}, stage ${mesh.getLocalRank('pipeline')}: ${stage.layerNames.join(', ')}`);

  // Each replica has its own data.
  const inputs = tf.randomNormal([20, 10], 0, 1, 'float32', 2 * replica + 1);
  const targets = tf.randomNormal([20, 5], 0, 1, 'float32', 2 * replica + 2);
  for (let step = 0; step < STEPS; step++) {
    const { loss } = await schedule.step({ inputs, targets });
    await stage.step();
    print(`step ${step}: loss ${loss.toFixed(6)}`);
  }

  const [kernel] = await stage.parameters.values();
  const replicas = await mesh.getGroup('data').allGather(kernel!);
  const isEqual = replicas.every((other) => other.every((value, i) => value === kernel![i]));
  print(`stages of both replicas are ${isEqual ? 'equal' : 'different'}`);
}
