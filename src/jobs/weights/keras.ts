/**
 * Keras 3's weights format, `.weights.h5`: an HDF5 file with datasets `layers/dense/vars/0`,
 * `layers/dense_1/vars/0`, ... A layer is identified by its class and by its index among the layers
 * of this class instead of its name, so only a model with the same layers can load the file.
 *
 * Files are read and written with h5wasm, a WebAssembly library of four megabytes. It is loaded
 * when the first such file is read or written. The Content-Security-Policy of the page must allow
 * WebAssembly, as for TensorFlow.js's wasm backend. It need not allow `eval`.
 *
 * Source: keras/src/saving/saving_lib.py of Keras 3 (`H5IOStore`, `_save_container_state`).
 */
import type { Dataset, File as Hdf5File, Group } from 'h5wasm';
import { DataError, reasonOf, UsageError } from '../../util/errors.ts';
import { sizeOf } from '../../util/shape.ts';
import { kerasPaths } from './kerasPaths.ts';
import { digestsOf, withDigests, type About, type NamedTensor, type Topology } from './namedTensor.ts';

/**
 * Path in the library's in-memory file system. A single path is enough: the code does not await
 * while a file exists, so there is only one file at a time.
 */
const PATH = '/weights.h5';

/**
 * Writes Keras weights, and a digest of the tensors with the names that they have in the file.
 *
 * @throws (rejects) UsageError if h5wasm is not installed.
 */
export async function writeKeras(
  tensors: readonly NamedTensor[],
  topology: Topology,
  about: About,
): Promise<Uint8Array<ArrayBuffer>> {
  const { File, FS } = await openLibrary();
  const paths = kerasPaths(
    topology,
    tensors.map(({ name }) => name),
  );
  const inFile = tensors.map((tensor) => ({ ...tensor, name: paths.get(tensor.name)! }));
  const file = new File(PATH, 'w');
  try {
    for (const [key, text] of Object.entries(withDigests(about, digestsOf(inFile)))) file.create_attribute(key, text);
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
 *
 * @param file the file's name in errors.
 * @throws (rejects) DataError if the file is not a complete HDF5 file, has no layers, or a weight
 *   is not float32; UsageError if h5wasm is not installed.
 */
export async function readKeras(
  file: string,
  bytes: Uint8Array<ArrayBuffer>,
): Promise<{ tensors: NamedTensor[]; about: About }> {
  const { File, Dataset: DatasetClass, FS } = await openLibrary();
  FS.writeFile(PATH, bytes);
  let opened: Hdf5File | null = null;
  try {
    opened = open(file, () => new File(PATH, 'r'));
    const root = opened;
    const tensors = open(file, () =>
      root
        .paths()
        .filter((path) => /^(layers|_layer_checkpoint_dependencies)\/.*vars\/\d+$/.test(path))
        .map((path) => ({ path, entity: root.get(path) }))
        .filter((one): one is { path: string; entity: Dataset } => one.entity instanceof DatasetClass)
        .map(({ path, entity }) => readDataset(file, path, entity)),
    );
    if (tensors.length === 0) throw refusal(file, 'it has no weights of layers');
    const texts = Object.entries(root.attrs).flatMap(([key, { value }]) =>
      typeof value === 'string' ? [[key, value] as const] : [],
    );
    return { tensors, about: Object.fromEntries(texts) };
  } finally {
    opened?.close();
    FS.unlink(PATH);
  }
}

function readDataset(file: string, path: string, dataset: Dataset): NamedTensor {
  const { shape, value } = dataset;
  if (!(value instanceof Float32Array) || shape === null || value.length !== sizeOf(shape)) {
    throw refusal(file, `${path} is of type ${JSON.stringify(dataset.dtype)}, but only float32 is supported`);
  }
  // Keras 2.13 calls the group `layers` differently.
  const name = path.replace(/^_layer_checkpoint_dependencies\//, 'layers/');
  return { name, shape, values: new Float32Array(value) };
}

function stepInto(group: Group, name: string): Group {
  return group.keys().includes(name) ? (group.get(name) as Group) : group.create_group(name);
}

async function openLibrary() {
  // The package is optional.
  const imported = import('h5wasm').catch((error: unknown) => {
    throw new UsageError(
      `Keras weights need the package h5wasm, which could not be loaded (${reasonOf(error)}). Install h5wasm.`,
    );
  });
  const { File, Dataset: DatasetClass, ready } = await imported;
  const library = await ready;
  // Without this handler, the library prints errors to the console instead of throwing them.
  library.activate_throwing_error_handler();
  return { File, Dataset: DatasetClass, FS: library.FS };
}

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
