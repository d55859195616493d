/** Named tensors and metadata: the data that the formats in this folder write and read. */
import * as v from 'valibot';
import { SampleFacts } from '../../spec/dataFacts.ts';
import { Vocabulary } from '../../spec/vocabulary.ts';
import { DataError } from '../../util/errors.ts';
import { hashState } from '../../util/hash.ts';

export interface NamedTensor {
  /** Name as in `JobModel.names`: `dense1/kernel`. */
  readonly name: string;
  readonly shape: readonly number[];
  /** Values in row-major order. */
  readonly values: Float32Array<ArrayBuffer>;
}

/** The layers of a model in Keras's format, as returned by TensorFlow.js's `toJSON`. */
export interface Topology {
  readonly class_name: string;
  readonly config: { readonly layers: readonly { readonly class_name: string; readonly config: { name: string } }[] };
}

/** Texts stored beside the weights, by name. */
export type About = Readonly<Record<string, string>>;

/** Name of the digest of the weights. It detects changed bytes, which no format does by itself. */
export const DIGEST = 'peergrad.digest';

/** Name of a language model's vocabulary, stored as JSON. */
export const VOCABULARY = 'peergrad.vocabulary';

/** Name of the meaning of inputs and outputs, stored as JSON. */
export const FACTS = 'peergrad.facts';

/** The vocabulary in a file; `null` if it has none. @throws DataError if it is invalid. */
export function readVocabulary(file: string, about: About): Vocabulary | null {
  return readJson(file, about, VOCABULARY, Vocabulary);
}

/** @throws as {@link readVocabulary}. */
export function readFacts(file: string, about: About): SampleFacts | null {
  return readJson(file, about, FACTS, SampleFacts);
}

function readJson<T extends v.GenericSchema>(
  file: string,
  about: About,
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

/** Digest of names, shapes and values, independent of the tensors' order. */
export function digestOf(tensors: readonly NamedTensor[]): string {
  const sorted = [...tensors].sort((a, b) => (a.name < b.name ? -1 : 1));
  const names = JSON.stringify(sorted.map(({ name, shape }) => [name, shape]));
  return hashState([new TextEncoder().encode(names), ...sorted.map(({ values }) => values)]);
}

/**
 * @param digest the digest in the file; `undefined` if another program wrote it.
 * @throws DataError if the weights do not match it.
 */
export function checkDigest(file: string, tensors: readonly NamedTensor[], digest: string | undefined): void {
  if (digest === undefined || digest === digestOf(tensors)) return;
  throw new DataError(
    `${file} is damaged: its weights are not those that were saved. Copy, download or save it again.`,
  );
}
