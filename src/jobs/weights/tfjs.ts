/**
 * A TensorFlow.js LayersModel in a zip file: `model.json` with the layers, and `weights.bin`. After
 * unpacking, `tf.loadLayersModel` can load the model from the address of `model.json`.
 *
 * Source: TensorFlow.js's `ModelJSON` (tfjs-core/src/io/types.ts).
 */
import { unzipSync, zipSync, type Unzipped } from 'fflate';
import * as v from 'valibot';
import { MAX_MODEL_FILE_BYTES } from '../../spec/modelFile.ts';
import { DataError, messageOf } from '../../util/errors.ts';
import { parseJson } from '../../util/json.ts';
import { sizeOf } from '../../util/shape.ts';
import type { About, NamedTensor, Topology } from './namedTensor.ts';

const MODEL_JSON = 'model.json';
const WEIGHTS_BIN = 'weights.bin';
/** All files have this modification time, so that the same model always gives the same bytes. */
const NO_DATE = new Date(1980, 0, 1);

const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const ModelJson = v.object({
  weightsManifest: v.array(
    v.object({
      paths: v.array(v.string()),
      weights: v.array(
        v.object({
          name: v.string(),
          shape: v.array(count),
          dtype: v.string(),
          quantization: v.optional(v.unknown()),
        }),
      ),
    }),
  ),
  userDefinedMetadata: v.optional(v.record(v.string(), v.unknown())),
});

export function writeTfjs(tensors: readonly NamedTensor[], topology: Topology, about: About): Uint8Array<ArrayBuffer> {
  const model = {
    format: 'layers-model',
    generatedBy: 'peergrad',
    convertedBy: null,
    modelTopology: topology,
    weightsManifest: [
      {
        paths: [WEIGHTS_BIN],
        weights: tensors.map(({ name, shape }) => ({ name, shape, dtype: 'float32' })),
      },
    ],
    userDefinedMetadata: about,
  };
  const weights = new Uint8Array(tensors.reduce((sum, { values }) => sum + values.byteLength, 0));
  let at = 0;
  for (const { values } of tensors) {
    weights.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), at);
    at += values.byteLength;
  }
  const json = new TextEncoder().encode(JSON.stringify(model));
  // Weights are not compressed, because compression hardly makes floats smaller.
  return zipSync({ [MODEL_JSON]: json, [WEIGHTS_BIN]: [weights, { level: 0 }] }, { mtime: NO_DATE });
}

/**
 * Reads a zip of a LayersModel. The model may also be in a folder, or have weights in several
 * files, as TensorFlow.js and its converter write them.
 *
 * @param file the file's name in errors.
 * @throws DataError if it is not a zip of a LayersModel, a file in it is missing or cut off, or a
 *   weight is not float32.
 */
export function readTfjs(file: string, bytes: Uint8Array<ArrayBuffer>): { tensors: NamedTensor[]; about: About } {
  const files = unzip(file, bytes);
  const json = Object.keys(files).find((path) => path.split('/').at(-1) === MODEL_JSON);
  if (json === undefined) throw refusal(file, `has no ${MODEL_JSON}`);
  const model = v.safeParse(ModelJson, parseJson(files[json]!));
  if (!model.success) {
    const [issue] = model.issues;
    throw refusal(file, `has a ${json} that cannot be read (${v.getDotPath(issue) ?? 'its top'}: ${issue.message})`);
  }
  const folder = json.slice(0, -MODEL_JSON.length);
  const { weightsManifest, userDefinedMetadata = {} } = model.output;
  const tensors = weightsManifest.flatMap(({ paths, weights }) => {
    const parts = paths.map((path) => {
      const part = files[folder + path];
      if (!part) throw refusal(file, `does not contain ${folder}${path}, but ${json} lists this file`);
      return part;
    });
    const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
    let end = 0;
    for (const part of parts) {
      all.set(part, end);
      end += part.length;
    }
    let at = 0;
    const read = weights.map(({ name, shape, dtype, quantization }) => {
      if (dtype !== 'float32' || quantization !== undefined) {
        const is = quantization === undefined ? dtype : 'quantized';
        throw refusal(
          file,
          `has "${name}" as ${is}, but only float32 is supported (convert the model without quantization)`,
        );
      }
      const begin = at;
      at += sizeOf(shape) * Float32Array.BYTES_PER_ELEMENT;
      if (at > end)
        throw refusal(file, `has only ${end} bytes in ${paths.join(', ')}, but weight "${name}" ends at byte ${at}`);
      return { name, shape, values: new Float32Array(all.slice(begin, at).buffer) };
    });
    if (at < end) throw refusal(file, `has ${end - at} bytes in ${paths.join(', ')} that do not belong to a weight`);
    return read;
  });
  const texts = Object.entries(userDefinedMetadata).filter(
    (one): one is [string, string] => typeof one[1] === 'string',
  );
  return { tensors, about: Object.fromEntries(texts) };
}

function unzip(file: string, bytes: Uint8Array): Unzipped {
  let unpacked = 0;
  try {
    return unzipSync(bytes, {
      filter: ({ name, originalSize }) => {
        unpacked += originalSize;
        if (unpacked > MAX_MODEL_FILE_BYTES)
          throw refusal(file, `has more than ${MAX_MODEL_FILE_BYTES} bytes when unpacked`);
        return !name.endsWith('/');
      },
    });
  } catch (error) {
    if (error instanceof DataError) throw error;
    throw refusal(file, `cannot be unpacked because it is cut off or damaged (${messageOf(error)})`);
  }
}

function refusal(file: string, what: string): DataError {
  return new DataError(`${file} is not a complete zip of a TensorFlow.js model: it ${what}. Copy or save it again.`);
}
