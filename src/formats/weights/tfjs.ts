/**
 * A TensorFlow.js LayersModel in a zip file: `model.json` with the layers, and `weights.bin`. After
 * unpacking, `tf.loadLayersModel` can load the model from the address of `model.json`.
 *
 * Source: TensorFlow.js's `ModelJSON` (tfjs-core/src/io/types.ts).
 */
import { joinBytes } from '../../util/bytes.ts';
import { zipSync } from 'fflate';
import * as v from 'valibot';
import { isHiddenFile } from '../../spec/dataFiles.ts';
import { checkModelFileSize } from '../../spec/modelFile.ts';
import { DataError } from '../../util/errors.ts';
import { parseJson } from '../../util/json.ts';
import { elementCountOf } from '../../util/shape.ts';
import { listInWords } from '../../util/text.ts';
import { openZip } from '../zip.ts';
import type { WeightsMetadata, DecodedWeights, NamedTensor, KerasTopology } from './namedTensor.ts';

/** Matches the path of the file that describes a model. */
export const MODEL_JSON_PATH = /(^|\/)model\.json$/;
const WEIGHTS_BIN = 'weights.bin';
/** All files have this modification time, so that the same model always gives the same bytes. */
const NO_DATE = new Date(1980, 0, 1);

const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const ModelJson = v.object({
  format: v.optional(v.string()),
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

export function writeTfjs(
  tensors: readonly NamedTensor[],
  topology: KerasTopology,
  about: WeightsMetadata,
): Uint8Array<ArrayBuffer> {
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
  const weights = joinBytes(tensors.map(({ values }) => values));
  const json = new TextEncoder().encode(JSON.stringify(model));
  // Weights are not compressed, because compression hardly makes floats smaller.
  return zipSync({ 'model.json': json, [WEIGHTS_BIN]: [weights, { level: 0 }] }, { mtime: NO_DATE });
}

interface Member {
  readonly path: string;
  /** @throws (rejects) DataError if the file is damaged, or too large when unpacked. */
  readonly read: () => Promise<Uint8Array<ArrayBuffer>>;
}

/**
 * Lists the files in a zip, without files that operating systems add.
 *
 * @throws (rejects) DataError if the zip is cut off or damaged.
 */
export async function openZipMembers(file: string, blob: Blob): Promise<Member[]> {
  let unpacked = 0;
  return (await openZip(file, blob))
    .filter(({ path }) => !isHiddenFile(path))
    .map(({ path, size, blob: unpack }) => ({
      path,
      read: async () => {
        unpacked += size;
        checkModelFileSize(`The unpacked ${file}`, unpacked);
        return new Uint8Array(await (await unpack()).arrayBuffer());
      },
    }));
}

/**
 * Reads a zip of a LayersModel. The model may also be in a folder, or have weights in several
 * files, as TensorFlow.js and its converter write them.
 *
 * @param file the file's name in errors.
 * @throws (rejects) DataError if it is not a zip of one LayersModel, a file in it is missing or cut
 *   off, or a weight is not float32.
 */
export async function readTfjs(file: string, blob: Blob): Promise<DecodedWeights> {
  const members = await openZipMembers(file, blob);
  const models = members.filter(({ path }) => MODEL_JSON_PATH.test(path));
  if (models.length > 1) {
    throw new DataError(
      `${file} has several models: ${listInWords(models.map(({ path }) => path))}. Pack one of them.`,
    );
  }
  const [described] = models;
  if (!described) throw refusal(file, 'has no model.json');
  const json = described.path;
  const model = v.safeParse(ModelJson, parseJson(await described.read()));
  if (!model.success) {
    const [issue] = model.issues;
    throw refusal(file, `has a ${json} that cannot be read (${v.getDotPath(issue) ?? 'its top'}: ${issue.message})`);
  }
  if (model.output.format === 'graph-model') {
    throw new DataError(
      `${file} has a GraphModel, which has no layers. Convert the model with --output_format=tfjs_layers_model.`,
    );
  }
  const folder = json.slice(0, -'model.json'.length);
  const { weightsManifest, userDefinedMetadata = {} } = model.output;
  const groups: NamedTensor[][] = [];
  for (const { paths, weights } of weightsManifest) {
    const parts: Uint8Array[] = [];
    for (const path of paths) {
      const part = members.find((member) => member.path === folder + path);
      if (!part) throw refusal(file, `does not contain ${folder}${path}, but ${json} lists this file`);
      parts.push(await part.read());
    }
    const all = joinBytes(parts);
    const end = all.length;
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
      at += elementCountOf(shape) * Float32Array.BYTES_PER_ELEMENT;
      if (at > end)
        throw refusal(file, `has only ${end} bytes in ${paths.join(', ')}, but weight "${name}" ends at byte ${at}`);
      return { name, shape, values: new Float32Array(all.slice(begin, at).buffer) };
    });
    if (at < end) throw refusal(file, `has ${end - at} bytes in ${paths.join(', ')} that do not belong to a weight`);
    groups.push(read);
  }
  const texts = Object.entries(userDefinedMetadata).filter(
    (one): one is [string, string] => typeof one[1] === 'string',
  );
  return { tensors: groups.flat(), about: Object.fromEntries(texts), notes: [] };
}

function refusal(file: string, what: string): DataError {
  return new DataError(`${file} is not a complete zip of a TensorFlow.js model: it ${what}. Copy or save it again.`);
}
