/** Finds the tensors of a model's variables in a file of weights. */
import { DataError } from '../../util/errors.ts';
import { FLOAT_TYPES } from './floatTypes.ts';
import { kerasPaths } from './kerasPaths.ts';
import type { WeightsFormat } from '../../spec/modelFile.ts';
import type { DataNote } from '../../spec/preview.ts';
import type { NamedTensor, TensorEntry, KerasTopology } from './namedTensor.ts';
import type { WeightsFile } from './weightsFile.ts';

/** The model that receives a file's weights. */
interface WeightsTarget {
  readonly names: readonly string[];
  readonly shapes: readonly (readonly number[])[];
  readonly topology: KerasTopology | null;
}

interface FileEntries {
  file: string;
  format: WeightsFormat;
  entries: readonly TensorEntry[];
  /** Notes about arrays of the file that are not in `entries`. */
  notes: readonly DataNote[];
}

/**
 * Returns the names of tensors in a file, in the order of the model's variables.
 *
 * @param advice the end of error messages: what the user can do.
 * @throws DataError with the first weight that is missing, unexpected, or has a different shape.
 */
export function matchWeightNames(
  { file, format, entries, notes }: FileEntries,
  { names, shapes, topology }: WeightsTarget,
  advice = 'Choose the model and width from which the file was saved, or choose another file',
): string[] {
  const places = format === 'keras' && topology !== null ? kerasPaths(topology, names) : null;
  const found = new Map(entries.map((entry) => [entry.name, entry]));
  const fitting = names.map((name, i) => {
    const place = places?.get(name) ?? name;
    const called = place === name ? `"${name}"` : `"${name}" (${place})`;
    const tensor = found.get(place);
    if (!tensor) {
      const other = notes.find((note) => note.kind === 'weights-left-out' && note.name === place);
      if (other) {
        throw new DataError(
          `${file} has ${called} of type ${other.example}, but weights must be one of ${FLOAT_TYPES.join(', ')}. Save the model with weights of one of these types.`,
        );
      }
      const has = entries.map((one) => one.name).join(', ');
      throw new DataError(
        `${file} does not contain ${called}, but this model needs it. The file contains ${has}. ${advice}.`,
      );
    }
    found.delete(place);
    const [there, here] = [tensor.shape, shapes[i]!].map((shape) => `[${shape.join(', ')}]`);
    if (there !== here) {
      const isTransposed = there === `[${shapes[i]!.toReversed().join(', ')}]`;
      throw new DataError(
        `${file} has ${called} of shape ${there}, but in this model its shape is ${here}. ` +
          (isTransposed
            ? 'PyTorch stores such weights transposed. Save the transposed weights, or choose another file.'
            : `${advice}.`),
      );
    }
    return place;
  });
  const [odd] = found.keys();
  if (odd !== undefined)
    throw new DataError(`${file} contains "${odd}", but this model has no such variable. ${advice}.`);
  return fitting;
}

/**
 * Returns the weights of a decoded file in the order of the model's variables.
 *
 * @throws DataError like {@link matchWeightNames}.
 */
export function matchWeights(
  { tensors, ...file }: Omit<FileEntries, 'entries'> & { tensors: readonly NamedTensor[] },
  target: WeightsTarget,
  advice?: string,
): Float32Array<ArrayBuffer>[] {
  const values = new Map(tensors.map((tensor) => [tensor.name, tensor.values]));
  return matchWeightNames({ ...file, entries: tensors }, target, advice).map((name) => values.get(name)!);
}

/**
 * Yields the weights of a file in the order of the model's variables. One tensor is read at a time.
 *
 * @throws (rejects) DataError like {@link matchWeightNames}, or if the file cannot be read.
 */
export async function* readMatchedWeights(
  weights: WeightsFile,
  target: WeightsTarget,
): AsyncGenerator<Float32Array<ArrayBuffer>, void> {
  for (const name of matchWeightNames(weights, target)) yield (await weights.read(name)).values;
}
