/** Weights outside a model: what the formats in this folder write and read. */
import * as v from 'valibot';
import { Vocabulary } from '../../protocol/vocabulary.ts';
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

/** Name under which a digest of the weights is written, so that a changed byte is noticed, which no format does by itself. */
export const DIGEST = 'peergrad.digest';

/** Name under which a language model's vocabulary is written, as JSON. */
export const VOCABULARY = 'peergrad.vocabulary';

/**
 * @param text as the file `file` has it; `undefined` where it has none.
 * @throws DataError where it is no vocabulary.
 */
export function readVocabulary(file: string, text: string | undefined): Vocabulary | null {
  if (text === undefined) return null;
  const vocabulary = v.safeParse(v.pipe(v.string(), v.parseJson(), Vocabulary), text);
  if (vocabulary.success) return vocabulary.output;
  const [issue] = vocabulary.issues;
  const where = v.getDotPath(issue);
  throw new DataError(
    `${file} is damaged: its ${VOCABULARY} is none (${where === null ? '' : `${where}: `}${issue.message}). Save it anew.`,
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
