/** Copies weights between a model and the tensors of a file. */
import * as tf from '@tensorflow/tfjs';
import type { SavableModel } from '../../jobs/index.ts';
import { readMatchedWeights } from '../../formats/weights/matchWeights.ts';
import type { NamedTensor } from '../../formats/weights/namedTensor.ts';
import type { WeightsFile } from '../../formats/weights/weightsFile.ts';
import { createFlatLayout } from '../../parallel/flat/buckets.ts';
import { readVariables } from '../../parallel/backward/flatten.ts';

/**
 * Reads the model's current weights. The reading starts before the function returns.
 *
 * @throws (rejects) DeviceError if the GPU is lost.
 */
export async function readModelWeights({ names, variables }: Omit<SavableModel, 'topology'>): Promise<NamedTensor[]> {
  const { slots, size } = createFlatLayout(variables.map((variable) => variable.size));
  const flat = new Float32Array(size);
  await readVariables(variables, slots, flat);
  return slots
    .map(({ parameter, offset, size: length }) => ({ parameter, values: flat.slice(offset, offset + length) }))
    .sort((a, b) => a.parameter - b.parameter)
    .map(({ parameter, values }) => ({ name: names[parameter]!, shape: variables[parameter]!.shape, values }));
}

/** @throws (rejects) DataError if the weights do not fit this model, or cannot be read. */
export async function setModelWeights(
  { names, variables, topology }: SavableModel,
  weights: WeightsFile,
): Promise<void> {
  const shapes = variables.map(({ shape }) => shape);
  let i = 0;
  for await (const values of readMatchedWeights(weights, { names, shapes, topology })) assign(variables[i++]!, values);
}

/** @param values for each variable: its values in row-major order. */
export function assignWeights(variables: readonly tf.Variable[], values: readonly Float32Array<ArrayBuffer>[]): void {
  for (const [i, variable] of variables.entries()) assign(variable, values[i]!);
}

function assign(variable: tf.Variable, values: Float32Array<ArrayBuffer>): void {
  const tensor = tf.tensor(values, variable.shape);
  variable.assign(tensor);
  tensor.dispose();
}
