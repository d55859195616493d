/** Weights outside a model: what the formats in this folder write and read. */
import * as v from 'valibot';
import { SampleFacts } from '../../spec/dataFacts.ts';
import { Vocabulary } from '../../spec/vocabulary.ts';
import { DataError } from '../../util/errors.ts';
import { hashState } from '../../util/hash.ts';

export interface NamedTensor {
  /** As in `JobModel.names`: `dense1/kernel`. */
  readonly name: string;
  readonly shape: readonly number[];
  /** Row by row, the last dimension fastest. */
  readonly values: Float32Array<ArrayBuffer>;
}

/** A Sequential as Keras describes it: what TensorFlow.js's `toJSON` gives. */
export interface Topology {
  readonly class_name: string;
  readonly config: { readonly layers: readonly { readonly class_name: string; readonly config: { name: string } }[] };
}

/** What is written beside the weights, by name. */
export type About = Readonly<Record<string, string>>;

/**
 * Name under which a digest of the weights is written, so that a changed byte is noticed, which no
 * format does by itself.
 */
export const DIGEST = 'peergrad.digest';

/** Name under which a language model's vocabulary is written, as JSON. */
export const VOCABULARY = 'peergrad.vocabulary';

/** Name under which the meaning of inputs and outputs is written, as JSON. */
export const FACTS = 'peergrad.facts';

/**
 * @throws DataError where the file `file` has something else under that name; `null` where it has
 *   nothing.
 */
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
    `${file} is damaged: its ${name} is none (${where === null ? '' : `${where}: `}${issue.message}). Save it anew.`,
  );
}

/** Of names, shapes and values, in whatever order they come. */
export function digestOf(tensors: readonly NamedTensor[]): string {
  const sorted = [...tensors].sort((a, b) => (a.name < b.name ? -1 : 1));
  const names = JSON.stringify(sorted.map(({ name, shape }) => [name, shape]));
  return hashState([new TextEncoder().encode(names), ...sorted.map(({ values }) => values)]);
}

/**
 * @param digest as the file `file` has it; `undefined` where another program wrote it.
 * @throws DataError where the weights are not those that were written.
 */
export function checkDigest(file: string, tensors: readonly NamedTensor[], digest: string | undefined): void {
  if (digest === undefined || digest === digestOf(tensors)) return;
  throw new DataError(
    `${file} is damaged: its weights are not those that were saved. Copy or download it again, or save it anew.`,
  );
}
