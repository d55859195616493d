/** Copies the weights of a file into a model. */
import * as tf from '@tensorflow/tfjs';
import type { KeptModel } from '../../jobs/index.ts';
import { fitWeights, type WeightsFile } from '../../jobs/weights/weightsFile.ts';

/** @throws DataError if the weights do not fit this model. */
export function setWeights({ names, variables, topology }: KeptModel, weights: WeightsFile): void {
  const shapes = variables.map(({ shape }) => shape);
  const values = fitWeights(weights, { names, shapes, topology });
  for (const [i, variable] of variables.entries()) {
    const tensor = tf.tensor(values[i]!, variable.shape);
    variable.assign(tensor);
    tensor.dispose();
  }
}
