/**
 * Weights as Keras 3 saves them, `.weights.h5`: an HDF5 file with `layers/dense/vars/0`,
 * `layers/dense_1/vars/0`, ... Layers go by their class, counted, not by their names, so that a
 * model of the same layers is needed to make sense of them.
 *
 * HDF5 is its own library, in WebAssembly (h5wasm): four megabytes, loaded when the first such file
 * is written or read. A page's policy has to allow WebAssembly, as TensorFlow.js's own needs it to;
 * it evaluates no code besides.
 *
 * Source: keras/src/saving/saving_lib.py of Keras 3 (`H5IOStore`, `_save_container_state`).
 */
import type { Dataset, File as Hdf5File, Group } from 'h5wasm';
import { DataError } from '../../util/errors.ts';
import { sizeOf } from '../../util/shape.ts';
import type { About, NamedTensor, Topology } from './namedTensor.ts';

/**
 * In the library's own file system, in memory. One file at a time: nothing waits while there is
 * one.
 */
const PATH = '/weights.h5';

/** Where Keras has each weight, by our names. */
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
      // As Keras does, for people who look into the file.
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
 * Tensors are named by their paths in the file, as in {@link kerasPaths}.
 *
 * @param file what to call it in errors.
 * @throws (rejects) DataError where it is no whole HDF5 file, holds no layers, or a weight is not
 *   float32.
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
    if (tensors.length === 0) throw refusal(file, 'it holds no weights of layers');
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
    throw refusal(file, `${path} is of type ${JSON.stringify(dataset.dtype)}, and only float32 can be taken`);
  }
  // Keras 2.13's name for the same.
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
  // Else it prints errors.
  library.activate_throwing_error_handler();
  return { File, Dataset: DatasetClass, FS: library.FS };
}

/** What HDF5 says is pages long. */
function open<T>(file: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof DataError) throw error;
    throw refusal(file, 'it is cut off or damaged');
  }
}

function refusal(file: string, what: string): DataError {
  return new DataError(`${file} is no whole file of Keras weights: ${what}. Copy it again, or save it anew.`);
}
