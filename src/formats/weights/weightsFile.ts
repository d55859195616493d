/** Reads and writes files of model weights: safetensors, TensorFlow.js models, Keras weights. */
import type { SampleFacts } from '../../spec/dataFacts.ts';
import { checkModelFileSize, type WeightsFormat } from '../../spec/modelFile.ts';
import type { DataNote } from '../../spec/preview.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { DataError, UsageError } from '../../util/errors.ts';
import { KERAS_WEIGHTS_PATH, readKeras, writeKeras } from './keras.ts';
import { openSafetensors, writeSafetensors, type OpenSafetensors } from './safetensors.ts';
import { openZipMembers, readTfjs, writeTfjs } from './tfjs.ts';
import { detectWeightsFormat } from './weightsFormat.ts';
import {
  checkSavedTensorDigests,
  digestsOfTensors,
  readSampleFactsFromWeights,
  readVocabulary,
  withTensorDigests,
  type WeightsMetadata,
  type DecodedWeights,
  type NamedTensor,
  type TensorEntry,
  type KerasTopology,
} from './namedTensor.ts';

export {
  SAMPLE_FACTS_KEY,
  VOCABULARY_KEY,
  type NamedTensor,
  type TensorEntry,
  type KerasTopology,
} from './namedTensor.ts';

export interface WeightsFile {
  /** The file's name, for errors. */
  readonly file: string;
  readonly format: WeightsFormat;
  /**
   * The tensors. In a Keras file, the name of a tensor is its path in the file. In other files, it
   * is the name of a variable of the model.
   */
  readonly entries: readonly TensorEntry[];
  /**
   * Reads a tensor.
   *
   * @throws (rejects) DataError if the file has no such tensor or cannot be read.
   */
  readonly read: (name: string) => Promise<NamedTensor>;
  /** Notes about arrays of the file that a job leaves out or rounds. */
  readonly notes: readonly DataNote[];
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
  topology: KerasTopology | null,
  about: WeightsMetadata,
): Promise<Uint8Array<ArrayBuffer>> {
  if (format === 'safetensors') return writeSafetensors(tensors, withTensorDigests(about, digestsOfTensors(tensors)));
  if (topology === null) {
    throw new UsageError('This model is not made of TensorFlow.js layers. Save it as safetensors.');
  }
  return format === 'tfjs'
    ? writeTfjs(tensors, topology, withTensorDigests(about, digestsOfTensors(tensors)))
    : writeKeras(tensors, topology, about);
}

/**
 * Opens a file of weights, and checks all its tensors. The first bytes determine its format. The
 * tensors of a safetensors file are read when they are needed. Files of other formats are decoded
 * as a whole, so their size is limited.
 *
 * @throws (rejects) DataError if the format is unknown, the file is cut off, damaged or too large,
 *   or a weight is NaN or infinite.
 */
export async function openWeights(file: string, blob: Blob): Promise<WeightsFile> {
  const format = await detectWeightsFormat(file, blob);
  const decoded = format === 'safetensors' ? await openSafetensors(file, blob) : await decode(format, file, blob);
  const { about, read, entries, notes } = withoutNormalization(decoded);
  for (const { name } of entries) checkFinite(file, await read(name));
  return {
    file,
    format,
    entries,
    read,
    notes,
    vocabulary: readVocabulary(file, about),
    facts: readSampleFactsFromWeights(file, about),
  };
}

function checkFinite(file: string, { name, values }: NamedTensor): void {
  const at = values.findIndex((value) => !Number.isFinite(value));
  if (at === -1) return;
  throw new DataError(
    `${file} has ${values[at]} in "${name}", at position ${at}, so it cannot be trained or used. Choose a model that was saved before its training diverged.`,
  );
}

/** Decodes a file of a format that can only be decoded as a whole. */
async function decode(format: keyof typeof READERS, file: string, blob: Blob): Promise<OpenSafetensors> {
  checkModelFileSize(file, blob.size);
  const { tensors, about, notes } = await READERS[format](file, blob);
  checkSavedTensorDigests(file, tensors, about);
  const found = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  return { about, notes, entries: tensors, read: (name) => Promise.resolve(found.get(name)!) };
}

/** Matches the mean and the variance of Keras's layer Normalization. */
const NORMALIZATION = /^((?:.*\/)?normalization(?:_\d+)?)\/vars\/[01]$/;

/**
 * Leaves out the mean and the variance with which a model normalizes its inputs, because no layer
 * of a job has them. A note says so, because the other weights fit only samples that are normalized
 * in the same way.
 */
function withoutNormalization(file: OpenSafetensors): OpenSafetensors {
  const layers = file.entries.flatMap(({ name }) => NORMALIZATION.exec(name)?.[1] ?? []);
  const notes = [...new Set(layers)].map((name): DataNote => {
    const count = layers.filter((layer) => layer === name).length;
    return { kind: 'weights-normalization', count, name, example: '' };
  });
  const entries = file.entries.filter(({ name }) => !NORMALIZATION.test(name));
  return { ...file, entries, notes: [...file.notes, ...notes] };
}

const READERS = {
  tfjs: readTfjs,
  keras: readKerasFile,
} as const;

/** Reads a file of Keras weights, or the weights in a `.keras` archive. */
async function readKerasFile(file: string, blob: Blob): Promise<DecodedWeights> {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  if (bytes[0] !== 0x50) return readKeras(file, bytes);
  const weights = (await openZipMembers(file, blob)).find(({ path }) => KERAS_WEIGHTS_PATH.test(path));
  return readKeras(file, await weights!.read());
}
