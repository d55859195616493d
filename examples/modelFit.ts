// TensorFlow.js's model.fit before and after `distribute`, on generated digits. modelFit/page.js is
// a whole page of TensorFlow.js; README.md has the three lines that make its tabs train together.
// https://js.tensorflow.org/api/latest/#tf.LayersModel.fit
// Two ranks with batches of 32 learn what one learns with batches of 64.
// Expected output: in each epoch, loss and accuracy of `distribute` are those of `model.fit`.
import * as tf from '@tensorflow/tfjs';
import { distribute, loadData, parseJob, type ProcessGroup } from '../src/index.ts'; // from 'peergrad'

export const worldSize = 2;
const SAMPLES = 256;
const BATCH_SIZE = 64;

async function loadDigits() {
  const { train } = await loadData(parseJob({ job: 'digits' }), { baseUrl: '' });
  const pixels = new Float32Array(SAMPLES * 28 * 28);
  const labels = new Int32Array(SAMPLES);
  const indices = Array.from({ length: SAMPLES }, (_, i) => i);
  await train.read(indices, pixels, labels);
  return { xs: tf.tensor2d(pixels, [SAMPLES, 28 * 28]), ys: tf.oneHot(labels, 10) };
}

function createModel(): tf.LayersModel {
  const kernelInitializer = tf.initializers.glorotUniform({ seed: 1 });
  const model = tf.sequential();
  model.add(tf.layers.dense({ units: 32, inputShape: [28 * 28], activation: 'relu', kernelInitializer }));
  model.add(tf.layers.dense({ units: 10, activation: 'softmax', kernelInitializer }));
  model.compile({ optimizer: tf.train.adam(), loss: 'categoricalCrossentropy', metrics: ['accuracy'] });
  return model;
}

export async function main(group: ProcessGroup, print: (line: string) => void): Promise<void> {
  const { xs, ys } = await loadDigits();
  const log = (name: string) => ({
    onEpochEnd: (epoch: number, logs?: tf.Logs) =>
      print(`${name}, epoch ${epoch}: loss ${logs!['loss']!.toFixed(3)}, accuracy ${logs!['acc']!.toFixed(3)}`),
  });

  const before = createModel();
  await before.fit(xs, ys, { epochs: 3, batchSize: BATCH_SIZE, shuffle: false, callbacks: log('model.fit') });

  const after = await distribute(createModel(), group);
  const batchSize = BATCH_SIZE / group.worldSize;
  await after.fit(xs, ys, { epochs: 3, batchSize, shuffle: false, callbacks: log('distribute') });
}
