/**
 * Recognizes the format of a file of weights. For unsupported formats, the error names the format
 * and says how to save the weights.
 */
import * as v from 'valibot';
import type { WeightsFormat } from '../../spec/modelFile.ts';
import { DataError } from '../../util/errors.ts';
import { hexOf } from '../../util/hex.ts';
import { parseJson } from '../../util/json.ts';
import { listInWords } from '../../util/text.ts';
import { KERAS_WEIGHTS_PATH, kerasSaveCall } from './keras.ts';
import { MODEL_JSON_PATH, openZipMembers } from './tfjs.ts';

/** The number of bytes at the start of a file that determine its format. */
const HEAD_BYTES = 64;
/** Maximum size in bytes of an index of shards that is read. */
const MAX_INDEX_BYTES = 100_000_000;

/** Maximum number of files that an error lists. */
const MOST_NAMED = 6;

const AS_SAFETENSORS = 'Save its weights as safetensors, in the layout that docs/export.md describes.';
const UNPACK = 'Unpack it and choose what is inside.';
const AS_KERAS = (file: string) => `Load it in Keras, and save its weights with ${kerasSaveCall(file)}.`;

/**
 * Files whose presence shows what a zip contains. For each: a pattern of its path, what the zip is,
 * and what the user can do.
 */
const ZIPS: readonly (readonly [RegExp, string | ((path: string) => string), string | ((file: string) => string)])[] = [
  [/(^|\/)data\.pkl$/, 'is a file of PyTorch', AS_SAFETENSORS],
  [/(^|\/)saved_model\.pb$/, 'is a SavedModel of TensorFlow', AS_KERAS],
  [/\.(safetensors|h5|keras)$/i, (path) => `contains ${path}`, 'Unpack it and choose that file.'],
  [/\.npy$/, 'contains arrays of NumPy', AS_SAFETENSORS],
];

/**
 * Text files that are not weights. For each: a pattern of its start, what the file is, and what the
 * user can do.
 */
const TEXTS: readonly (readonly [RegExp, string, string])[] = [
  [/^$/, 'is empty', 'Copy or save it again.'],
  [/^\s*<(!doctype|html|\?xml)/i, 'is a web page, although its name says otherwise', 'Download it again.'],
  [/^version https:\/\/git-lfs/, 'is a pointer of Git LFS, without the file', 'Fetch the file with git lfs pull.'],
];

/**
 * Other files that are not supported. For each: a pattern of its first bytes in hexadecimal, where
 * a dot stands for any digit; what the file is; and what the user can do.
 */
const BINARIES: readonly (readonly [RegExp, string, string])[] = [
  // Pickles of protocol 2 or later. Older protocols are no longer used.
  [/^800[2-5]/, 'is a pickle, as PyTorch and scikit-learn write it', AS_SAFETENSORS],
  [/^934e554d5059/, 'is an array of NumPy', AS_SAFETENSORS],
  // A model of ONNX begins with the version of the format and the tag of the next field.
  [/^08[01].(12|1a|22|28|32|3a|42)/, 'is a model of ONNX', AS_SAFETENSORS],
  [/^.{8}54464c33/, 'is a model of TensorFlow Lite', 'Choose the file of weights from which it was converted.'],
  [/^47475546/, 'is a GGUF file', AS_SAFETENSORS],
  [/^1f8b/, 'is compressed by gzip', UNPACK],
  [/^52617221/, 'is a RAR archive', UNPACK],
  [/^377abcaf271c/, 'is a 7z archive', UNPACK],
];

const names = v.record(v.string(), v.union([v.string(), v.array(v.string())]));
const Index = v.object({ weight_map: names });
const ModelJson = v.object({ weightsManifest: v.array(v.object({ paths: v.array(v.string()) })) });
const Layers = v.object({ class_name: v.string() });

/**
 * Returns the format of a file.
 *
 * @throws (rejects) DataError if the format is unsupported. The error says what to do.
 */
export async function detectWeightsFormat(file: string, blob: Blob): Promise<WeightsFormat> {
  // TextDecoder('latin1') is not used, because browsers decode it as windows-1252, where some bytes
  // are other characters.
  const bytes = new Uint8Array(await blob.slice(0, HEAD_BYTES).arrayBuffer());
  const head = String.fromCharCode(...bytes);
  // A safetensors file begins with the length of the header, whose last bytes are zeros, and the
  // header. This is checked first, because the length may look like the start of another format.
  if (head.slice(6, 9) === '\0\0{') return 'safetensors';
  if (head.startsWith('PK')) return zipFormat(file, blob);
  if (head.startsWith('\x89HDF')) return 'keras';
  const start =
    TEXTS.find(([pattern]) => pattern.test(head)) ?? BINARIES.find(([pattern]) => pattern.test(hexOf(bytes)));
  if (start) throw advised(file, start[1], start[2]);
  const described = /^\s*\{/.test(head) && blob.size <= MAX_INDEX_BYTES ? describe(file, await blob.text()) : null;
  if (described) throw described;
  throw advised(
    file,
    'is not a supported file of weights',
    "Choose a .safetensors file, a zip of a TensorFlow.js model, or Keras's .weights.h5.",
  );
}

async function zipFormat(file: string, blob: Blob): Promise<WeightsFormat> {
  const paths = (await openZipMembers(file, blob)).map(({ path }) => path);
  if (paths.some((path) => KERAS_WEIGHTS_PATH.test(path))) return 'keras';
  if (paths.some((path) => MODEL_JSON_PATH.test(path))) return 'tfjs';
  for (const [pattern, what, advice] of ZIPS) {
    const path = paths.find((one) => pattern.test(one));
    if (path !== undefined) throw advised(file, typeof what === 'string' ? what : what(path), advice);
  }
  throw advised(
    file,
    'is a zip, but it has no model.json of TensorFlow.js',
    "Choose a zip of a TensorFlow.js model, a .safetensors file, or Keras's .weights.h5.",
  );
}

/** Returns an error for a JSON file about a model; `null` for other files. */
function describe(file: string, text: string): DataError | null {
  const json = parseJson(text);
  const index = v.safeParse(Index, json);
  if (index.success) {
    const shards = [...new Set(Object.values(index.output.weight_map).flat())];
    return listing(
      file,
      shards,
      shards.some((shard) => shard.endsWith('.h5'))
        ? `Save the model as one file, with ${kerasSaveCall(file)} without max_shard_size.`
        : 'Save the model as one file, for example by save_pretrained with a larger max_shard_size.',
    );
  }
  const model = v.safeParse(ModelJson, json);
  if (model.success) {
    const parts = model.output.weightsManifest.flatMap(({ paths }) => paths);
    return listing(file, parts, 'Pack it and these files in a zip, and choose the zip.');
  }
  return v.is(Layers, json)
    ? advised(file, 'describes layers, but has no weights', 'Choose it as the model of the job.')
    : null;
}

function listing(file: string, files: readonly string[], advice: string): DataError {
  const more = files.length - MOST_NAMED;
  const named = listInWords(more > 0 ? [...files.slice(0, MOST_NAMED), `${more} more`] : files);
  return advised(file, `has no weights, but lists the files that have them: ${named}`, advice);
}

function advised(file: string, what: string, advice: string | ((file: string) => string)): DataError {
  return new DataError(`${file} ${what}. ${typeof advice === 'string' ? advice : advice(file)}`);
}
