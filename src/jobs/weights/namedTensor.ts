/** Named tensors and metadata. The formats in this folder read and write them. */
import * as v from 'valibot';
import { SampleFacts } from '../../spec/dataFacts.ts';
import { Vocabulary } from '../../spec/vocabulary.ts';
import { DataError } from '../../util/errors.ts';
import { hashState } from '../../util/hash.ts';

export interface NamedTensor {
  /** Name as in `JobModel.names`, such as `dense1/kernel`. */
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

/** Texts that are stored together with the weights, by name. */
export type About = Readonly<Record<string, string>>;

/**
 * Name under which a digest of the weights is stored. The digest detects changed bytes. The file
 * formats themselves have no checksum of weights.
 */
export const DIGEST = 'peergrad.digest';

/** Name under which the vocabulary of a language model is stored, as JSON. */
export const VOCABULARY = 'peergrad.vocabulary';

/** Name under which the meaning of inputs and outputs is stored, as JSON. */
export const FACTS = 'peergrad.facts';

/**
 * Returns the vocabulary in a file, or `null` if the file has none.
 *
 * @throws DataError if the vocabulary is invalid.
 */
export function readVocabulary(file: string, about: About): Vocabulary | null {
  return readJson(file, about, VOCABULARY, Vocabulary);
}

/**
 * Returns the meaning of inputs and outputs in a file, or `null` if the file has none.
 *
 * @throws DataError if it is invalid.
 */
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

/** Returns a digest of names, shapes and values. It does not depend on the order of the tensors. */
function digestOf(tensors: readonly NamedTensor[]): string {
  const sorted = [...tensors].sort((a, b) => (a.name < b.name ? -1 : 1));
  const names = JSON.stringify(sorted.map(({ name, shape }) => [name, shape]));
  return hashState([new TextEncoder().encode(names), ...sorted.map(({ values }) => values)]);
}

/** Adds the digest of `tensors`, by which a load detects changed weights. */
export function withDigest(about: About, tensors: readonly NamedTensor[]): About {
  return { ...about, [DIGEST]: digestOf(tensors) };
}

/**
 * Checks that weights were not changed after they were saved.
 *
 * @param digest the digest in the file; `undefined` if another program wrote the file.
 * @throws DataError if the weights do not match the digest.
 */
export function checkDigest(file: string, tensors: readonly NamedTensor[], digest: string | undefined): void {
  if (digest === undefined || digest === digestOf(tensors)) return;
  throw new DataError(
    `${file} is damaged. Its weights are not those that were saved. Copy, download or save it again.`,
  );
}
