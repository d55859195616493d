/** A page for tests: trains with 1, 2 and 3 replicas on one device each. */
import * as tf from '@tensorflow/tfjs';
import { DataParallel, type ReplicaPassReport } from '../../../src/dataParallel.ts';
import { createOptimizer, openDevice } from '../../../src/index.ts';

export interface Trained {
  backend: string;
  losses: number[];
  rows: ReplicaPassReport[];
  /** Milliseconds of a step, the median. */
  stepMs: number;
  leaked: number;
}

declare global {
  interface Window {
    trainReplicas: (replicas: number, units: number, batch: number, steps: number) => Promise<Trained>;
    failReplica: () => Promise<string>;
    reopenDevice: () => Promise<{ isSame: boolean; before: number[]; after: number[] }>;
  }
}

let device: Promise<unknown> | null = null;

const seeded = (seed: number) => ({ kernelInitializer: tf.initializers.glorotUniform({ seed }) });

function build(units: number): tf.LayersModel {
  return tf.sequential({
    layers: [
      tf.layers.dense({ ...seeded(1), units, inputShape: [784], activation: 'relu' }),
      tf.layers.dense({ ...seeded(2), units: 10 }),
    ],
  });
}

window.trainReplicas = async (replicas, units, batch, steps) => {
  await (device ??= openDevice());
  const model = build(units);
  const xs = tf.randomUniform([batch, 784], 0, 1, 'float32', 3);
  const labels = tf.tidy(() => tf.oneHot(tf.range(0, batch, 1, 'int32').mod(10).toInt(), 10));
  const parallel = await DataParallel.create(model, { replicas });
  const optimizer = createOptimizer('sgd', { learningRate: 0.1 }, parallel.parameters.length);
  const losses: number[] = [];
  const times: number[] = [];
  let before = 0;
  for (let step = 0; step < steps; step++) {
    const startedAt = performance.now();
    losses.push(await parallel.backward(xs, (outputs) => tf.losses.softmaxCrossEntropy(labels, outputs).asScalar()));
    parallel.step(optimizer);
    times.push(performance.now() - startedAt);
    if (step === 0) before = tf.memory().numTensors;
  }
  const leaked = tf.memory().numTensors - before;
  const rows = parallel.memory();
  parallel.dispose();
  tf.dispose([xs, labels]);
  model.dispose();
  const [stepMs = 0] = times.toSorted((a, b) => a - b).slice(Math.floor(steps / 2));
  return { backend: tf.getBackend(), losses, rows, stepMs, leaked };
};

/** Opens the device twice with a tensor on it, loses the GPU, and opens the device again. */
window.reopenDevice = async () => {
  const first = await openDevice();
  const tensor = tf.tidy(() => tf.ones([2]).add(1));
  const isSame = (await openDevice()) === first;
  const before = Array.from(await tensor.data());
  const { device: gpu } = tf.backend() as unknown as { device: GPUDevice };
  gpu.destroy();
  await gpu.lost;
  await openDevice();
  const again = tf.tidy(() => tf.ones([2]).add(2));
  return { isSame, before, after: Array.from(await again.data()) };
};

const openReplica = () => new Worker('/no-such-worker.js', { type: 'module' });

window.failReplica = async () => {
  const error: unknown = await DataParallel.create(build(2), { replicas: 2, openReplica }).catch(
    (failure: unknown) => failure,
  );
  return String(error);
};
