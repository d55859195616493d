// PyTorch's tutorial on DataParallel:
// https://docs.pytorch.org/tutorials/beginner/blitz/data_parallel_tutorial.html
// One tab splits batches of 30 samples between replicas of a model in workers: 30, then 15, then
// 10 samples each. The last batch has 10 samples.
// Expected output: one line per replica with the sizes of its part, as printed inside the
// tutorial's model, then the gathered size; and the memory of a training step, which replica 0
// needs most of.
import * as tf from '@tensorflow/tfjs';
import { DataParallel } from '../src/dataParallel.ts'; // from 'peergrad/data-parallel'
import { createOptimizer, type ProcessGroup } from '../src/index.ts'; // from 'peergrad'

export const worldSize = 1;

const [INPUT, OUTPUT, BATCH, DATA] = [5, 2, 30, 100];

const sizeOf = (shape: number[]): string => `[${shape.join(', ')}]`;

export async function main(_group: ProcessGroup, print: (line: string) => void): Promise<void> {
  const data = tf.randomNormal<tf.Rank.R2>([DATA, INPUT]);
  for (const replicas of [1, 2, 3]) {
    const model = tf.sequential({ layers: [tf.layers.dense({ units: OUTPUT, inputShape: [INPUT] })] });
    const parallel = await DataParallel.create(model, { replicas });
    print(`Let's use ${replicas} replicas!`);
    for (let start = 0; start < DATA; start += BATCH) {
      const input = data.slice(start, Math.min(BATCH, DATA - start));
      const output = (await parallel.predict(input)) as tf.Tensor;
      for (const { inputs, outputs } of parallel.memory()) {
        print(`In Model: input size ${sizeOf(inputs[0] ?? [])} output size ${sizeOf(outputs[0] ?? [])}`);
      }
      print(`Outside: input size ${sizeOf(input.shape)} output_size ${sizeOf(output.shape)}`);
      tf.dispose([input, output]);
    }
    const batch = data.slice(0, BATCH);
    await parallel.backward(batch, (outputs) => outputs.square().mean().asScalar());
    parallel.step(createOptimizer('adam', { learningRate: 0.01 }, parallel.parameters.length));
    for (const row of parallel.memory()) print(`Replica ${row.replica}: batch ${row.batch}, ${row.bytes} bytes`);
    parallel.dispose();
    batch.dispose();
    model.dispose();
  }
  data.dispose();
}
