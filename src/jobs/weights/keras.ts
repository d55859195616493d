/**
 * Keras 3's weights format, `.weights.h5`: an HDF5 file with `layers/dense/vars/0`,
 * `layers/dense_1/vars/0`, ... Layers are identified by class and count, not by name, so only a
 * model with the same layers can load them.
 *
 * HDF5 is a WebAssembly library (h5wasm) of four megabytes, loaded when the first such file is
 * written or read. The page's policy must allow WebAssembly, as for TensorFlow.js's wasm backend;
 * the library does not evaluate code from strings.
 *
 * Source: keras/src/saving/saving_lib.py of Keras 3 (`H5IOStore`, `_save_container_state`).
 */
import type { Dataset, File as Hdf5File, Group } from 'h5wasm';
import { DataError } from '../../util/errors.ts';
import { sizeOf } from '../../util/shape.ts';
import type { About, NamedTensor, Topology } from './namedTensor.ts';

/**
 * Path in the library's in-memory file system. Only one file exists at a time, because no code
 * awaits while it exists.
 */
const PATH = '/weights.h5';

/** Keras's path of each weight, by our names. */
export function kerasPaths({ config }: Topology, names: readonly string[]): Map<string, string> {
  const used = new Map<string, number>();
  const paths = new Map<string, string>();
  for (const { class_name: className, config: layer } of config.layers) {
    const kind = snakeCase(className);
    const before = used.get(kind) ?? 0;
    used.set(kind, before + 1);
    const own = names.filter((name) => name.startsWith(`${layer.name}/`));
    for (const [i, name] of own.entries()) paths.set(name, `layers/${kind}${before > 0 ? `_${before}` : ''}/vars/${i}`);
  }
  return paths;
}

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
  const file = new File(PATH, 'w');
  try {
    for (const [key, text] of Object.entries(about)) file.create_attribute(key, text);
    for (const { name, shape, values } of tensors) {
      const steps = paths.get(name)!.split('/');
      const id = steps.pop()!;
      const group = steps.reduce(stepInto, file as Group);
      // Keras stores this name for people who inspect the file.
      if (id === '0') group.create_attribute('name', name.split('/')[0]!);
      group.create_dataset({ name: id, data: values, shape: [...shape], dtype: '<f' });
    }
    file.close();
    return new Uint8Array(FS.readFile(PATH));
  } finally {
    FS.unlink(PATH);
  }
}

/**
 * Reads Keras weights. Tensors are named by their paths in the file, as in {@link kerasPaths}.
 *
 * @param file the file's name in errors.
 * @throws (rejects) DataError if the file is not a complete HDF5 file, has no layers, or a weight
 *   is not float32.
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
  // Keras 2.13's name of the same group.
  const name = path.replace(/^_layer_checkpoint_dependencies\//, 'layers/');
  return { name, shape, values: new Float32Array(value) };
}

function stepInto(group: Group, name: string): Group {
  return group.keys().includes(name) ? (group.get(name) as Group) : group.create_group(name);
}

/** `Conv2D`: conv2d, `BatchNormalization`: batch_normalization. (Keras: `to_snake_case`) */
function snakeCase(className: string): string {
  return className
    .replaceAll(/(.)([A-Z][a-z]+)/g, '$1_$2')
    .replaceAll(/([a-z])([A-Z])/g, '$1_$2')
    .toLowerCase();
}

async function openLibrary() {
  const { File, Dataset: DatasetClass, ready } = await import('h5wasm');
  const library = await ready;
  // Without this, the library prints errors to the console.
  library.activate_throwing_error_handler();
  return { File, Dataset: DatasetClass, FS: library.FS };
}

/** Replaces HDF5's error messages, which are pages long. */
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
