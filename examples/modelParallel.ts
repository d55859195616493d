// PyTorch's model parallel tutorial:
// https://docs.pytorch.org/tutorials/intermediate/model_parallel_tutorial.html
// Each rank has one layer of the ToyModel (10-10-5). Micro-batches follow each other through both
// ranks.
// Expected output: a loss that falls, and one layer on each rank.
import * as tf from '@tensorflow/tfjs';
import { createOptimizer, PipelineStage, ScheduleGPipe, type ProcessGroup } from '../src/index.ts'; // from 'peergrad'

export const worldSize = 2;

const STEPS = 5;

export async function main(group: ProcessGroup, print: (line: string) => void): Promise<void> {
  // These layers have no weights yet. A rank builds its own layer only.
  const layers = [
    tf.layers.dense({ name: 'net1', units: 10, inputShape: [10], activation: 'relu' }),
    tf.layers.dense({ name: 'net2', units: 5 }),
  ];
  const stage = await PipelineStage.create(layers, group, {
    stages: [1, 1],
    optimizer: (size) => createOptimizer('sgd', { learningRate: 0.001 }, size),
  });
  const schedule = new ScheduleGPipe(stage, {
    microBatches: 4,
    loss: (outputs, targets) => tf.losses.meanSquaredError(targets, outputs).asScalar(),
  });
  print(`layers: ${stage.layerNames.join(', ')}`);

  // Rank 0 uses the inputs, and rank 1 the labels.
  const inputs = tf.randomNormal([20, 10], 0, 1, 'float32', 1);
  const targets = tf.randomNormal([20, 5], 0, 1, 'float32', 2);
  for (let step = 0; step < STEPS; step++) {
    const { loss } = await schedule.step({ inputs, targets });
    await stage.step();
    print(`step ${step}: loss ${loss.toFixed(6)}`);
  }
}
