// PyTorch's recipe "Shard Optimizer States with ZeroRedundancyOptimizer":
// https://docs.pytorch.org/tutorials/recipes/zero_redundancy_optimizer.html
// Each rank has only its shard of Adam's averages.
// Expected output: half of the bytes of averages on each of two ranks, and the same parameters as
// without shards.
import * as tf from '@tensorflow/tfjs';
import {
  createOptimizer,
  DistributedDataParallel,
  ZeroRedundancyOptimizer,
  type OptimizerState,
  type ProcessGroup,
} from '../src/index.ts'; // from 'peergrad'

export const worldSize = 2;

const STEPS = 5;

const adam = (size: number) => createOptimizer('adam', { learningRate: 0.01 }, size);

export async function main(group: ProcessGroup, print: (line: string) => void): Promise<void> {
  const sharded = await train(group, true);
  const whole = await train(group, false);
  print(`averages: ${sharded.bytes} bytes with ZeroRedundancyOptimizer, ${whole.bytes} bytes without`);
  const isEqual = whole.parameters.every((value, i) => value === sharded.parameters[i]);
  print(`parameters are ${isEqual ? 'equal' : 'different'}`);
}

async function train(group: ProcessGroup, isSharded: boolean): Promise<{ bytes: number; parameters: Float32Array }> {
  const model = tf.sequential({
    layers: Array.from({ length: 10 }, (_, i) =>
      tf.layers.dense({
        units: 100,
        inputShape: [100],
        kernelInitializer: tf.initializers.glorotUniform({ seed: i + 1 }),
      }),
    ),
  });
  const ddp = await DistributedDataParallel.create(model, group, { algorithm: 'ring' });
  const zero = isSharded ? new ZeroRedundancyOptimizer(ddp, adam) : null;
  const whole = isSharded ? null : adam(ddp.layout.size);
  const inputs = tf.randomNormal([20, 100], 0, 1, 'float32', 2 * group.rank + 1);
  const labels = tf.randomNormal([20, 100], 0, 1, 'float32', 2 * group.rank + 2);
  const loss = (): tf.Scalar => tf.losses.meanSquaredError(labels, model.apply(inputs) as tf.Tensor).asScalar();
  for (let step = 0; step < STEPS; step++) {
    await ddp.backward(loss, { samples: 20 });
    if (zero) await zero.step();
    else ddp.step(whole!);
  }
  const { slots }: OptimizerState = (zero?.localOptimizer ?? whole!).state();
  return { bytes: slots.reduce((sum, slot) => sum + slot.byteLength, 0), parameters: ddp.parameters };
}
