/** Loads a model with TensorFlow.js from the contents of a model file. */
import * as tf from '@tensorflow/tfjs';
import type { JobModel } from '../../src/jobs/index.ts';

export async function loadLayersModel(model: JobModel): Promise<tf.LayersModel> {
  const weights = tf.tidy(() => tf.concat(model.variables.map((variable) => variable.flatten())).dataSync());
  return tf.loadLayersModel(
    tf.io.fromMemory({
      modelTopology: model.topology as never,
      weightSpecs: model.variables.map(({ shape }, i) => ({ name: model.names[i]!, shape, dtype: 'float32' })),
      weightData: weights.slice().buffer,
    }),
  );
}
