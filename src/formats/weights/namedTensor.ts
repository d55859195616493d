/** Named tensors and metadata, which all formats in this folder read and write. */
import * as v from 'valibot';
import { SampleFacts } from '../../spec/dataFacts.ts';
import type { DataNote } from '../../spec/preview.ts';
import { Vocabulary } from '../../spec/vocabulary.ts';
import { DataError } from '../../util/errors.ts';
import { hashOfArrays } from '../../util/hash.ts';

/** A tensor without its values. */
export interface TensorEntry {
  /** Name as in `JobModel.names`, such as `dense1/kernel`. */
  readonly name: string;
  readonly shape: readonly number[];
}

export interface NamedTensor extends TensorEntry {
  /** Values in row-major order. */
  readonly values: Float32Array<ArrayBuffer>;
}

/** The layers of a model in Keras's format, as returned by TensorFlow.js's `toJSON`. */
export interface KerasTopology {
  readonly class_name: string;
  readonly config: { readonly layers: readonly TopologyLayer[] };
}

interface TopologyLayer {
  readonly class_name: string;
  /** A nested model has layers of its own. */
  readonly config: { readonly name: string; readonly layers?: readonly TopologyLayer[] };
}

/** Texts that are stored together with the weights, by name. */
export type WeightsMetadata = Readonly<Record<string, string>>;

export interface DecodedWeights {
  readonly tensors: NamedTensor[];
  readonly about: WeightsMetadata;
  /** Notes about arrays of the file that are left out or rounded. */
  readonly notes: readonly DataNote[];
}

/** Returns a note about one array. @param type the type of its numbers in the file. */
export function noteOnWeights(kind: 'weights-left-out' | 'weights-rounded', name: string, type: string): DataNote {
  return { kind, count: 1, name, example: type };
}

/**
 * Name under which the digests of tensors are stored, as JSON. They show whether bytes were
 * changed, because the file formats themselves have no checksums of weights.
 */
export const DIGESTS_KEY = 'peergrad.digests';

/** Name under which the vocabulary of a language model is stored, as JSON. */
export const VOCABULARY_KEY = 'peergrad.vocabulary';

/** Name under which the meaning of inputs and outputs is stored, as JSON. */
export const SAMPLE_FACTS_KEY = 'peergrad.facts';

/**
 * Returns the vocabulary in a file, or `null` if the file has none.
 *
 * @throws DataError if the vocabulary is invalid.
 */
export function readVocabulary(file: string, about: WeightsMetadata): Vocabulary | null {
  return readJson(file, about, VOCABULARY_KEY, Vocabulary);
}

/**
 * Returns the meaning of inputs and outputs in a file, or `null` if the file has none.
 *
 * @throws DataError if this meaning is invalid.
 */
export function readSampleFactsFromWeights(file: string, about: WeightsMetadata): SampleFacts | null {
  return readJson(file, about, SAMPLE_FACTS_KEY, SampleFacts);
}

function readJson<T extends v.GenericSchema>(
  file: string,
  about: WeightsMetadata,
  name: string,
  schema: T,
): v.InferOutput<T> | null {
  if (about[name] === undefined) return null;
  const read = v.safeParse(v.pipe(v.string(), v.parseJson(), schema), about[name]);
  if (read.success) return read.output;
  const [issue] = read.issues;
  const where = v.getDotPath(issue);
  throw new DataError(
    `${file} is damaged: its ${name} is invalid (${where === null ? '' : `${where}: `}${issue.message}). Save it again.`,
  );
}

/**
 * Returns the digests of tensors, by name. Each tensor has its own digest, so it can be checked
 * without the other tensors.
 */
export function digestsOfTensors(tensors: readonly NamedTensor[]): Record<string, string> {
  return Object.fromEntries(tensors.map((tensor) => [tensor.name, digestOf(tensor)]));
}

function digestOf({ name, shape, values }: NamedTensor): string {
  return hashOfArrays([new TextEncoder().encode(JSON.stringify([name, shape])), values]);
}

/** Adds digests. With them, {@link checkSavedTensorDigests} detects changed weights. */
export function withTensorDigests(about: WeightsMetadata, digests: Readonly<Record<string, string>>): WeightsMetadata {
  return { ...about, [DIGESTS_KEY]: JSON.stringify(digests) };
}

/**
 * Checks that tensors were not changed after they were saved.
 *
 * @param about texts of the file. Files of other programs have no digests.
 * @throws DataError if a tensor does not match its digest.
 */
export function checkSavedTensorDigests(file: string, tensors: readonly NamedTensor[], about: WeightsMetadata): void {
  const digests = readJson(file, about, DIGESTS_KEY, v.record(v.string(), v.string()));
  const changed = digests && tensors.find((tensor) => digests[tensor.name] !== digestOf(tensor));
  if (!changed) return;
  throw new DataError(
    `${file} is damaged: the weights "${changed.name}" differ from those that were saved. Copy, download or save the file again.`,
  );
}
