/** A model's weights as files, and back: safetensors, a TensorFlow.js model, Keras weights. */
import type { SampleFacts, ShardFacts } from '../../spec/dataFacts.ts';
import type { WeightsFormat } from '../../spec/modelFile.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { DataError, UsageError } from '../../util/errors.ts';
import { dataDifference } from '../dataDifference.ts';
import { kerasPaths, readKeras, writeKeras } from './keras.ts';
import { readSafetensors, writeSafetensors } from './safetensors.ts';
import { readTfjs, writeTfjs } from './tfjs.ts';
import {
  checkDigest,
  DIGEST,
  digestOf,
  readFacts,
  readVocabulary,
  type About,
  type NamedTensor,
  type Topology,
} from './namedTensor.ts';

export { FACTS, VOCABULARY, type NamedTensor, type Topology } from './namedTensor.ts';

export interface WeightsFile {
  /** The file's, for errors. */
  readonly file: string;
  readonly format: WeightsFormat;
  /** Named as in the model; of Keras by their places in the file. */
  readonly tensors: readonly NamedTensor[];
  /** Of a language model; `null` where the file does not say. */
  readonly vocabulary: Vocabulary | null;
  /**
   * The meaning of inputs and outputs, of a model trained on files; `null` where the file does not
   * state it.
   */
  readonly facts: SampleFacts | null;
}

/** A model whose weights a file is to hold. */
interface WeightsTarget {
  readonly names: readonly string[];
  readonly shapes: readonly (readonly number[])[];
  readonly topology: Topology | null;
}

/**
 * @param topology of the model; `null` where it is not made of layers.
 * @throws (rejects) UsageError where the format needs layers, and there are none.
 */
export async function encodeWeights(
  format: WeightsFormat,
  tensors: readonly NamedTensor[],
  topology: Topology | null,
  about: About,
): Promise<Uint8Array<ArrayBuffer>> {
  const digested = { ...about, [DIGEST]: digestOf(tensors) };
  if (format === 'safetensors') return writeSafetensors(tensors, digested);
  if (topology === null) {
    throw new UsageError('This model is not made of TensorFlow.js layers: save it as safetensors.');
  }
  return format === 'tfjs'
    ? writeTfjs(tensors, topology, digested)
    : writeKeras(tensors, topology, { ...about, [DIGEST]: digestOf(inKeras(tensors, topology)) });
}

/**
 * What a file is, its first bytes say.
 *
 * @throws (rejects) DataError where it is none of the formats, cut off or damaged.
 */
export async function decodeWeights(file: string, bytes: Uint8Array<ArrayBuffer>): Promise<WeightsFile> {
  const format = formatOf(bytes);
  if (format === null) {
    throw new DataError(
      `${file} holds no weights that can be read here: choose a .safetensors file, a zip of a TensorFlow.js model, or Keras's ` +
        '.weights.h5.',
    );
  }
  const { tensors, about } = await READERS[format](file, bytes);
  checkDigest(file, tensors, about[DIGEST]);
  return { file, format, tensors, vocabulary: readVocabulary(file, about), facts: readFacts(file, about) };
}

/**
 * Compares what a model was trained on with what it is to be trained on.
 *
 * @param file that holds the model, for errors.
 * @param own of the run's data; `null`: they do not say.
 * @throws DataError where inputs or outputs mean something else.
 */
export function checkFacts(file: string, learned: ShardFacts, own: SampleFacts | null): void {
  if (learned.kind === 'text' || own === null) return;
  const why = dataDifference(learned, own);
  if (why === null) return;
  throw new DataError(
    `${file} holds a model of other data: ${why}. Choose a model of such data, choose its data, or begin without it.`,
  );
}

/**
 * The file's weights in the model's order.
 *
 * @throws DataError naming the first weight that is missing, too much, or of another shape.
 */
export function fitWeights(
  { file, format, tensors }: WeightsFile,
  { names, shapes, topology }: WeightsTarget,
): Float32Array<ArrayBuffer>[] {
  const places = format === 'keras' && topology !== null ? kerasPaths(topology, names) : null;
  const found = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const advice = 'choose the model and its width that the file was saved from, or another file';
  const values = names.map((name, i) => {
    const place = places?.get(name) ?? name;
    const called = place === name ? `"${name}"` : `"${name}" (${place})`;
    const tensor = found.get(place);
    if (!tensor) {
      const has = tensors.map((one) => one.name).join(', ');
      throw new DataError(`${file} lacks ${called}, which this model has; it holds ${has}: ${advice}.`);
    }
    found.delete(place);
    const [there, here] = [tensor.shape, shapes[i]!].map((shape) => `[${shape.join(', ')}]`);
    if (there !== here) {
      throw new DataError(`${file} has ${called} of shape ${there}, and in this model it is ${here}: ${advice}.`);
    }
    return tensor.values;
  });
  const [odd] = found.keys();
  if (odd !== undefined) throw new DataError(`${file} has "${odd}", which this model does not have: ${advice}.`);
  return values;
}

const READERS = {
  safetensors: readSafetensors,
  tfjs: readTfjs,
  keras: readKeras,
} as const satisfies Record<WeightsFormat, unknown>;

/** Named as the file will have them. */
function inKeras(tensors: readonly NamedTensor[], topology: Topology): NamedTensor[] {
  const paths = kerasPaths(
    topology,
    tensors.map(({ name }) => name),
  );
  return tensors.map((tensor) => ({ ...tensor, name: paths.get(tensor.name)! }));
}

function formatOf(bytes: Uint8Array): WeightsFormat | null {
  // Not by a decoder: what browsers call latin1 has other characters for some bytes.
  const head = String.fromCharCode(...bytes.subarray(0, 9));
  if (head.startsWith('PK')) return 'tfjs';
  if (head.startsWith('\x89HDF')) return 'keras';
  return head.at(8) === '{' ? 'safetensors' : null;
}
