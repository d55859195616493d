// A page that trains on MNIST with TensorFlow.js alone, in one tab.
import * as tf from '@tensorflow/tfjs';

/** Fetches one of MNIST's files (in Vite from public/data, uncompressed), without its header. */
async function load(name, headerBytes) {
  const response = await fetch(`/data/${name}`);
  return new Uint8Array(await response.arrayBuffer(), headerBytes);
}

const images = await load('train-images-idx3-ubyte', 16);
const labels = await load('train-labels-idx1-ubyte', 8);
const xs = tf.tensor4d(
  Float32Array.from(images, (pixel) => pixel / 255),
  [labels.length, 28, 28, 1],
);
const ys = tf.oneHot(tf.tensor1d(labels, 'int32'), 10);

const model = tf.sequential();
model.add(tf.layers.conv2d({ inputShape: [28, 28, 1], filters: 8, kernelSize: 5, activation: 'relu' }));
model.add(tf.layers.maxPooling2d({ poolSize: 2 }));
model.add(tf.layers.flatten());
model.add(tf.layers.dense({ units: 10, activation: 'softmax' }));
model.compile({ optimizer: tf.train.adam(), loss: 'categoricalCrossentropy', metrics: ['accuracy'] });

await model.fit(xs, ys, {
  epochs: 3,
  batchSize: 32,
  callbacks: { onEpochEnd: (epoch, { loss, acc }) => show(`epoch ${epoch}: loss ${loss}, accuracy ${acc}`) },
});
show('trained');

function show(line) {
  document.querySelector('#log').append(`${line}\n`);
}
