/** The page of `tools elastic`: trains a small model as a user's page would, with `elastic`. */
import * as tf from '@tensorflow/tfjs';
import '@tensorflow/tfjs-backend-webgpu';
import { DataLoader, DistributedDataParallel, elastic, ElasticSampler, ElasticState } from '../../src/index.ts';
import { hashOfArrays } from '../../src/util/hash.ts';
import { BATCH_SIZE, EPOCHS, NODES, SAMPLES, STEP_MS, type Job, type Result } from './job.ts';

declare global {
  interface Window {
    /** Takes part in a job. */
    trainElastic: (job: Job) => Promise<Result>;
    /**
     * Both are defined by the tool. `onroom` is called with the code of the tab's room, `onstep`
     * before each step.
     */
    onroom: (room: string) => void;
    onstep: (step: number, generation: number) => void;
  }
}

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, STEP_MS));

/** The indices of a batch are the batch. */
const asIs = (indices: Int32Array): Int32Array => indices;

window.trainElastic = async ({ room, backend, worldSize, transport }) => {
  await tf.setBackend(backend);
  // Weights are random, so tabs start with different ones.
  const model = tf.sequential({
    layers: [
      tf.layers.dense({ units: 32, inputShape: [8], activation: 'tanh' }),
      tf.layers.batchNormalization(),
      tf.layers.dense({ units: 1 }),
    ],
  });
  const inputs = tf.randomNormal<tf.Rank.R2>([SAMPLES, 8], 0, 1, 'float32', 1);
  const labels = inputs.sum(1, true).sin() as tf.Tensor2D;
  const state = new ElasticState({
    model,
    optimizer: tf.train.adam(0.01),
    sampler: new ElasticSampler(SAMPLES),
    epoch: 0,
    steps: [] as Result['steps'],
  });
  let begun = 0;
  let joinedAt = 0;
  const ranks = await elastic(
    {
      server: location.origin,
      transport,
      onroom: window.onroom,
      timeoutMs: 60_000,
      ...(room === null ? { nodes: NODES, worldSize } : { room }),
    },
    state,
    async (_, group) => {
      if (begun === 0) joinedAt = state.steps.length;
      const ddp = await DistributedDataParallel.create(model, group);
      try {
        for (; state.epoch < EPOCHS; state.epoch++) {
          state.sampler.setEpoch(state.epoch);
          for await (const indices of new DataLoader(asIs, { sampler: state.sampler, batchSize: BATCH_SIZE })) {
            begun += 1;
            window.onstep(state.steps.length, group.generation);
            const [xs, ys] = [tf.gather(inputs, indices), tf.gather(labels, indices)];
            const loss = (outputs: tf.Tensor): tf.Scalar => tf.losses.meanSquaredError(ys, outputs).asScalar();
            try {
              await ddp.backward({ inputs: xs, loss }, { samples: indices.length });
            } finally {
              tf.dispose([xs, ys]);
            }
            const all = await group.allGatherObject(Array.from(indices));
            ddp.step(state.optimizer);
            state.sampler.recordBatch(BATCH_SIZE);
            state.steps.push({ epoch: state.epoch, indices: all.flat() });
            await state.commit();
            await pause();
          }
        }
        return group.worldSize;
      } finally {
        ddp.dispose();
      }
    },
  );
  const weights = await Promise.all(model.getWeights().map((weight) => weight.data<'float32'>()));
  return { ranks, hash: hashOfArrays(weights), steps: state.steps, repeated: begun - (state.steps.length - joinedAt) };
};
