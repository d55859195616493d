/**
 * A page for tests: trains a model with SyncBatchNormalization layers on two ranks, and the same
 * model with BatchNormalization layers in one tab.
 */
import * as tf from '@tensorflow/tfjs';
import '@tensorflow/tfjs-backend-webgpu';
import { destroyProcessGroup, initProcessGroup } from '../../../src/index.ts';
import { gradientsOf, type ComputedGradients, type Variable } from '../../../src/parallel/backward/flatten.ts';
import { gradientsOfPass } from '../../../src/parallel/backward/pass.ts';
import { convertSyncBatchNorm } from '../../../src/parallel/backward/syncBatchNorm.ts';

/** The results of a trained model. */
interface Trained {
  trained: number[];
  averages: number[];
}

declare global {
  interface Window {
    /**
     * Opens a room for two tabs (or joins `room`), trains with the other tab, then trains alone
     * with all samples.
     */
    trainNormalized: (
      room: string | null,
    ) => Promise<{ backend: string; together: Trained; alone: Trained; leaked: number }>;
    onroom: (room: string) => void;
  }
}

const STEPS = 4;
const RATE = 0.1;
/** Samples of each rank in each step. In one step a rank has no samples. */
const SHARES = [
  [4, 4],
  [5, 3],
  [8, 0],
  [1, 7],
];
const SAMPLES = 8;

function buildModel(): tf.LayersModel {
  const input = tf.input({ shape: [6, 6, 1] });
  const convolved = tf.layers.conv2d({ filters: 3, kernelSize: 3 }).apply(input) as tf.SymbolicTensor;
  const left = tf.layers.batchNormalization({ momentum: 0.8 }).apply(convolved) as tf.SymbolicTensor;
  const right = tf.layers.batchNormalization().apply(convolved) as tf.SymbolicTensor;
  const joined = tf.layers.add().apply([left, tf.layers.reLU().apply(right) as tf.SymbolicTensor, convolved]);
  const dense = tf.layers.dense({ units: 4 }).apply(tf.layers.flatten().apply(joined));
  const outputs = tf.layers.batchNormalization().apply(dense) as tf.SymbolicTensor;
  const model = tf.model({ inputs: input, outputs });
  for (const [i, weight] of model.trainableWeights.entries()) {
    weight.write(tf.randomNormal(weight.shape as number[], 0.2, 0.5, 'float32', i + 1));
  }
  return model;
}

const lossOf = (targets: tf.Tensor, outputs: tf.Tensor): tf.Scalar =>
  tf.losses.softmaxCrossEntropy(targets, outputs).asScalar();

async function flatOf(tensors: readonly tf.Tensor[]): Promise<Float32Array> {
  const parts = await Promise.all(tensors.map((tensor) => tensor.data<'float32'>()));
  return Float32Array.from(parts.flatMap((part) => Array.from(part)));
}

/** Trains a model. `pass` returns the gradients for the samples of a step. */
async function train(
  model: tf.LayersModel,
  pass: (step: number, inputs: tf.Tensor, targets: tf.Tensor, variables: Variable[]) => Promise<ComputedGradients>,
  reduce: (gradient: Float32Array) => PromiseLike<unknown>,
): Promise<Trained> {
  const variables = model.trainableWeights.map((weight) => weight.read() as Variable);
  for (let step = 0; step < STEPS; step++) {
    const inputs = tf.randomNormal([SAMPLES, 6, 6, 1], 2, 1, 'float32', 50 + step);
    const classes = Array.from({ length: SAMPLES }, (_, sample) => [0, 1, 2, 3].map((c) => (sample % 4 === c ? 1 : 0)));
    const targets = tf.tensor2d(classes);
    const computed = await pass(step, inputs, targets, variables);
    const gradient = await flatOf(computed.gradients);
    computed.dispose();
    await reduce(gradient);
    let at = 0;
    for (const variable of variables) {
      const part = gradient.slice(at, (at += variable.size));
      tf.tidy(() => variable.assign(variable.sub(tf.tensor(part, variable.shape).mul(RATE / SAMPLES))));
    }
    tf.dispose([inputs, targets]);
  }
  const averages = model.nonTrainableWeights.map((weight) => weight.read());
  return { trained: Array.from(await flatOf(variables)), averages: Array.from(await flatOf(averages)) };
}

window.trainNormalized = async (room) => {
  await tf.setBackend('webgpu');
  const group = await initProcessGroup({
    server: location.origin,
    ...(room === null ? { worldSize: 2, onroom: window.onroom } : { room }),
  });
  const reference = buildModel();
  const model = convertSyncBatchNorm(reference);
  const before = tf.memory().numTensors;
  const together = await train(
    model,
    async (step, inputs, targets, variables) => {
      const share = SHARES[step]!;
      const [start, size] = [group.rank === 0 ? 0 : share[0]!, share[group.rank]!];
      const [own, ownTargets] = [inputs.slice(start, size), targets.slice(start, size)];
      const pass = { inputs: own, loss: (outputs: tf.Tensor) => lossOf(ownTargets, outputs) };
      const computed = await gradientsOfPass(model, pass, variables, size, group);
      tf.dispose([own, ownTargets]);
      return computed;
    },
    (gradient) => group.allReduce(gradient),
  );
  const leaked = tf.memory().numTensors - before;
  const alone = await train(
    reference,
    (_step, inputs, targets, variables) => {
      const outputs = (): tf.Tensor => reference.apply(inputs, { training: true }) as tf.Tensor;
      return Promise.resolve(gradientsOf(() => lossOf(targets, outputs()), variables, SAMPLES));
    },
    () => Promise.resolve(),
  );
  await destroyProcessGroup(group);
  return { backend: tf.getBackend(), together, alone, leaked };
};
