/**
 * Keras 3's weights format, `.weights.h5`: an HDF5 file with datasets `layers/dense/vars/0`,
 * `layers/dense_1/vars/0`, ... A layer is identified by its class and by its index among the layers
 * of this class, instead of by its name. So only a model with the same layers can load the file.
 *
 * Files are read and written with h5wasm, a WebAssembly library of four megabytes. It is loaded
 * when the first such file is read or written. The Content-Security-Policy of the page must allow
 * WebAssembly, as for TensorFlow.js's wasm backend. It need not allow `eval`.
 *
 * Source: keras/src/saving/saving_lib.py of Keras 3 (`H5IOStore`, `_save_container_state`).
 */
import type { Dataset, File as Hdf5File, Group } from 'h5wasm';
import { MAX_MODEL_FILE_BYTES } from '../../spec/modelFile.ts';
import type { DataNote } from '../../spec/preview.ts';
import { DataError, errorReasonOf, UsageError } from '../../util/errors.ts';
import { listInWords } from '../../util/text.ts';
import { FLOAT_TYPES, toFloat32, type FloatType } from './floatTypes.ts';
import { kerasPaths } from './kerasPaths.ts';
import {
  digestsOfTensors,
  noteOnWeights,
  withTensorDigests,
  type WeightsMetadata,
  type DecodedWeights,
  type NamedTensor,
  type KerasTopology,
} from './namedTensor.ts';

/**
 * Path in h5wasm's in-memory file system. A single path is enough: the code does not await while a
 * file exists, so there is only one file at a time.
 */
const PATH = '/weights.h5';

/** Values of `H5T_class_t`, the class of a type in HDF5. */
const HDF5_INTEGER = 0;
const HDF5_FLOAT = 1;

/** Matches the path of the weights in an archive of Keras 3, a `.keras` file. */
export const KERAS_WEIGHTS_PATH = /(^|\/)model\.weights\.h5$/;

/**
 * Returns the Python call with which Keras saves a model's weights. The name of the saved file is
 * derived from `file`.
 */
export function kerasSaveCall(file: string): string {
  return `model.save_weights('${file.replace(/(\.weights)?\.\w+$/, '')}.weights.h5')`;
}

/**
 * Writes a file of Keras weights. It also contains a digest of each tensor, under the tensor's name
 * in the file.
 *
 * @throws (rejects) UsageError if h5wasm is not installed.
 */
export async function writeKeras(
  tensors: readonly NamedTensor[],
  topology: KerasTopology,
  about: WeightsMetadata,
): Promise<Uint8Array<ArrayBuffer>> {
  const { File, FS } = await openLibrary();
  const paths = kerasPaths(
    topology,
    tensors.map(({ name }) => name),
  );
  const inFile = tensors.map((tensor) => ({ ...tensor, name: paths.get(tensor.name)! }));
  const file = new File(PATH, 'w');
  try {
    for (const [key, text] of Object.entries(withTensorDigests(about, digestsOfTensors(inFile))))
      file.create_attribute(key, text);
    for (const [i, { name: path, shape, values }] of inFile.entries()) {
      const steps = path.split('/');
      const id = steps.pop()!;
      const group = steps.reduce(stepInto, file as Group);
      // Keras also stores the name of the layer, for people who inspect the file.
      if (id === '0') group.create_attribute('name', tensors[i]!.name.split('/')[0]!);
      group.create_dataset({ name: id, data: values, shape: [...shape], dtype: '<f' });
    }
    file.close();
    return new Uint8Array(FS.readFile(PATH));
  } finally {
    FS.unlink(PATH);
  }
}

/**
 * Reads Keras weights. The name of a tensor is its path in the file, as in {@link kerasPaths}.
 * Arrays that are not weights of layers, such as the state of an optimizer, the seeds of random
 * layers and other integers, are left out, with notes.
 *
 * @param file the file's name in errors.
 * @throws (rejects) DataError if the file is not a complete HDF5 file, has no layers, has the
 *   layout of Keras 2, or a weight is too large for float32; UsageError if h5wasm is not installed.
 */
export async function readKeras(file: string, bytes: Uint8Array<ArrayBuffer>): Promise<DecodedWeights> {
  if (bytes[0] === 0x50 && bytes[1] === 0x4b) {
    throw new DataError(`${file} is a zip, as Keras's .keras files are. Unpack it, and load its model.weights.h5.`);
  }
  const library = await openLibrary();
  const { File, Dataset: DatasetClass, FS } = library;
  FS.writeFile(PATH, bytes);
  let opened: Hdf5File | null = null;
  try {
    opened = open(file, () => new File(PATH, 'r'));
    const root = opened;
    const arrays = open(file, () =>
      root
        .paths()
        .map((path) => ({ path, entity: root.get(path) }))
        .filter((one): one is { path: string; entity: Dataset } => one.entity instanceof DatasetClass)
        // Keras 2.13 has a different name for the group `layers`.
        .map(({ path, entity }) => ({
          name: path.replace(/^_layer_checkpoint_dependencies\//, 'layers/'),
          type: typeOf(entity),
          entity,
        })),
    );
    if (!arrays.some(({ name }) => LAYER_WEIGHT.test(name))) throw withoutLayers(file, root, arrays);
    const weights = arrays.flatMap(({ name, type, entity }) =>
      LAYER_WEIGHT.test(name) && isFloat(type) ? [{ name, type, entity }] : [],
    );
    const others = arrays.filter(({ name, type }) => !LAYER_WEIGHT.test(name) || !isFloat(type));
    // The size of the arrays is checked in addition to the size of the file, because arrays that
    // are compressed, or that were never written, may be much larger than their file.
    const total = weights.reduce((sum, { entity: { metadata } }) => sum + metadata.size * metadata.total_size, 0);
    if (total > MAX_MODEL_FILE_BYTES) throw refusal(file, `its arrays would have ${total} bytes`);
    const tensors = open(file, () =>
      weights.map(({ name, type, entity }) => ({
        name,
        shape: entity.shape!,
        values: toFloat32(type, bytesOf(file, library, entity), { file, name }),
      })),
    );
    const rounded = weights.filter(({ type }) => type === 'float64');
    const notes = [
      ...leftOut(others),
      ...rounded.map(({ name, type }) => noteOnWeights('weights-rounded', name, type)),
    ];
    const texts = Object.entries(root.attrs).flatMap(([key, { value }]) =>
      typeof value === 'string' ? [[key, value] as const] : [],
    );
    return { tensors, about: Object.fromEntries(texts), notes };
  } finally {
    opened?.close();
    FS.unlink(PATH);
  }
}

interface StoredArray {
  name: string;
  type: string;
}

const LAYER_WEIGHT = /^layers\/.*vars\/\d+$/;

function isFloat(type: string): type is FloatType {
  return (FLOAT_TYPES as readonly string[]).includes(type);
}

/**
 * Returns notes about arrays that are not weights of layers. There is one note for each array in a
 * layer, and one for each group outside of layers.
 */
function leftOut(arrays: readonly StoredArray[]): DataNote[] {
  const notes = new Map<string, DataNote>();
  for (const { name, type } of arrays) {
    const isInLayer = name.startsWith('layers/');
    const key = isInLayer ? name : name.split('/')[0]!;
    const note = noteOnWeights('weights-left-out', key, isInLayer ? type : '');
    notes.set(key, { ...note, count: (notes.get(key)?.count ?? 0) + 1 });
  }
  return [...notes.values()];
}

/** Returns the type of a dataset's numbers, such as float32 or uint8. */
function typeOf({ attrs, metadata }: Dataset): string {
  const { type, size, signed, shape } = metadata;
  if (shape === null) return 'empty';
  // Keras marks bfloat16 by an attribute, because HDF5 has no such type.
  if (attrs['dtype']?.value === 'bfloat16' && size === 2) return 'bfloat16';
  if (type === HDF5_INTEGER) return `${signed ? 'int' : 'uint'}${size * 8}`;
  return type === HDF5_FLOAT ? `float${size * 8}` : 'other';
}

/**
 * Copies the bytes of a dataset, little-endian. h5wasm's own reader does not support floats of two
 * bytes.
 */
function bytesOf(file: string, { module }: Library, dataset: Dataset): Uint8Array<ArrayBuffer> {
  const { size, total_size: count } = dataset.metadata;
  const bytes = size * count;
  const at = module['_malloc'](bytes);
  if (at === 0 && bytes > 0) throw refusal(file, `${dataset.path} has ${bytes} bytes, which do not fit in memory`);
  try {
    module.get_dataset_data(dataset.file_id, dataset.path, null, null, null, BigInt(at));
    return new Uint8Array(module.HEAPU8.subarray(at, at + bytes));
  } finally {
    module['_free'](at);
  }
}

/** Returns an error that says how to save weights that are not in layers. */
function withoutLayers(file: string, root: Hdf5File, arrays: readonly StoredArray[]): DataError {
  const groups = [...new Set(arrays.map(({ name }) => name.split('/')[0]!))];
  // Keras 2 splits a long attribute `layer_names` into `layer_names0`, `layer_names1`, ...
  if (groups.includes('model_weights') || Object.keys(root.attrs).some((key) => /^layer_names\d*$/.test(key))) {
    return new DataError(
      `${file} has the layout of Keras 2, but the layout of Keras 3 is needed. Load the model in Keras 3, and save its weights with ${kerasSaveCall(file)}.`,
    );
  }
  if (groups.length === 0) return refusal(file, 'it has no weights of layers');
  return new DataError(
    `${file} does not contain layers of a Sequential or Functional model. It contains ${listInWords(groups)}. Save the weights of a Sequential or Functional model with ${kerasSaveCall(file)}.`,
  );
}

function stepInto(group: Group, name: string): Group {
  return group.keys().includes(name) ? (group.get(name) as Group) : group.create_group(name);
}

async function openLibrary() {
  // The package is optional.
  const imported = import('h5wasm').catch((error: unknown) => {
    throw new UsageError(
      `Keras weights need the package h5wasm, which could not be loaded (${errorReasonOf(error)}). Install h5wasm.`,
    );
  });
  const { File, Dataset: DatasetClass, ready } = await imported;
  const library = await ready;
  // Without this handler, h5wasm prints errors to the console instead of throwing them.
  library.activate_throwing_error_handler();
  return { File, Dataset: DatasetClass, FS: library.FS, module: library };
}

type Library = Awaited<ReturnType<typeof openLibrary>>;

/** Calls `read`. Replaces the error messages of HDF5, because they are pages long. */
function open<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof DataError) throw error;
    throw refusal(file, 'it is cut off or damaged');
  }
}

function refusal(file: string, what: string): DataError {
  return new DataError(`${file} is not a complete file of Keras weights: ${what}. Copy or save it again.`);
}
