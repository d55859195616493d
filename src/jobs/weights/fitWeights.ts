/** Assigns the tensors of a file of weights to the variables of a model. */
import { DataError } from '../../util/errors.ts';
import { kerasPaths } from './kerasPaths.ts';
import type { Topology } from './namedTensor.ts';
import type { WeightsFile } from './weightsFile.ts';

/** The model that receives a file's weights. */
interface WeightsTarget {
  readonly names: readonly string[];
  readonly shapes: readonly (readonly number[])[];
  readonly topology: Topology | null;
}

/**
 * Returns the weights of a file in the order of the model's variables.
 *
 * @param advice the end of error messages: what the user can do.
 * @throws DataError with the first weight that is missing, unexpected, or of another shape.
 */
export function fitWeights(
  { file, format, tensors }: Pick<WeightsFile, 'file' | 'format' | 'tensors'>,
  { names, shapes, topology }: WeightsTarget,
  advice = 'Choose the model and width from which the file was saved, or choose another file',
): Float32Array<ArrayBuffer>[] {
  const places = format === 'keras' && topology !== null ? kerasPaths(topology, names) : null;
  const found = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const values = names.map((name, i) => {
    const place = places?.get(name) ?? name;
    const called = place === name ? `"${name}"` : `"${name}" (${place})`;
    const tensor = found.get(place);
    if (!tensor) {
      const has = tensors.map((one) => one.name).join(', ');
      throw new DataError(
        `${file} does not contain ${called}, but this model needs it. The file contains ${has}. ${advice}.`,
      );
    }
    found.delete(place);
    const [there, here] = [tensor.shape, shapes[i]!].map((shape) => `[${shape.join(', ')}]`);
    if (there !== here) {
      throw new DataError(
        `${file} has ${called} of shape ${there}, but in this model its shape is ${here}. ${advice}.`,
      );
    }
    return tensor.values;
  });
  const [odd] = found.keys();
  if (odd !== undefined)
    throw new DataError(`${file} contains "${odd}", but this model has no such variable. ${advice}.`);
  return values;
}
