/** Reads and writes files of model weights: safetensors, TensorFlow.js models, Keras weights. */
import type { SampleFacts, ShardFacts } from '../../spec/dataFacts.ts';
import type { WeightsFormat } from '../../spec/modelFile.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { DataError, UsageError } from '../../util/errors.ts';
import { dataDifference } from '../dataDifference.ts';
import { readKeras, writeKeras } from './keras.ts';
import { readSafetensors, writeSafetensors } from './safetensors.ts';
import { readTfjs, writeTfjs } from './tfjs.ts';
import {
  checkDigests,
  digestsOf,
  readFacts,
  readVocabulary,
  withDigests,
  type About,
  type NamedTensor,
  type Topology,
} from './namedTensor.ts';

export { FACTS, VOCABULARY, type NamedTensor, type Topology } from './namedTensor.ts';

export interface WeightsFile {
  /** The file's name, for errors. */
  readonly file: string;
  readonly format: WeightsFormat;
  /**
   * The tensors. In a Keras file, the name of a tensor is its path in the file. In other files, it
   * is the name of a variable of the model.
   */
  readonly tensors: readonly NamedTensor[];
  /** The vocabulary of a language model; `null` if the file has none. */
  readonly vocabulary: Vocabulary | null;
  /**
   * The meaning of inputs and outputs of a model trained on files; `null` if the file does not
   * state it.
   */
  readonly facts: SampleFacts | null;
}

/**
 * Encodes a model as a file.
 *
 * @param topology the layers of the model; `null` if it is not made of layers.
 * @throws (rejects) UsageError if the format requires layers but the model has none.
 */
export async function encodeWeights(
  format: WeightsFormat,
  tensors: readonly NamedTensor[],
  topology: Topology | null,
  about: About,
): Promise<Uint8Array<ArrayBuffer>> {
  if (format === 'safetensors') return writeSafetensors(tensors, withDigests(about, digestsOf(tensors)));
  if (topology === null) {
    throw new UsageError('This model is not made of TensorFlow.js layers. Save it as safetensors.');
  }
  return format === 'tfjs'
    ? writeTfjs(tensors, topology, withDigests(about, digestsOf(tensors)))
    : writeKeras(tensors, topology, about);
}

/**
 * Decodes a file of weights. The first bytes determine its format.
 *
 * @throws (rejects) DataError if the format is unknown or the file is cut off or damaged.
 */
export async function decodeWeights(file: string, bytes: Uint8Array<ArrayBuffer>): Promise<WeightsFile> {
  const format = formatOf(bytes);
  if (format === null) {
    throw new DataError(
      `${file} is not a supported file of weights. Choose a .safetensors file, a zip of a TensorFlow.js model, or Keras's ` +
        '.weights.h5.',
    );
  }
  const { tensors, about } = await READERS[format](file, bytes);
  checkDigests(file, tensors, about);
  return { file, format, tensors, vocabulary: readVocabulary(file, about), facts: readFacts(file, about) };
}

/**
 * Compares the data of a model with the data of a run.
 *
 * @param file the model's file, for errors.
 * @param own facts of the run's data; `null` if unknown.
 * @throws DataError if inputs or outputs have another meaning.
 */
export function checkFacts(file: string, trained: ShardFacts, own: SampleFacts | null): void {
  if (trained.kind === 'text' || own === null) return;
  const why = dataDifference(trained, own);
  if (why === null) return;
  throw new DataError(
    `${file} contains a model that was trained on other data: ${why}. Choose a model for this data, choose the model's data, or start without the file.`,
  );
}

const READERS = {
  safetensors: readSafetensors,
  tfjs: readTfjs,
  keras: readKeras,
} as const satisfies Record<WeightsFormat, unknown>;

function formatOf(bytes: Uint8Array): WeightsFormat | null {
  // TextDecoder('latin1') is not used, because browsers decode it as windows-1252, where some bytes
  // are other characters.
  const head = String.fromCharCode(...bytes.subarray(0, 9));
  if (head.startsWith('PK')) return 'tfjs';
  if (head.startsWith('\x89HDF')) return 'keras';
  return head.at(8) === '{' ? 'safetensors' : null;
}
