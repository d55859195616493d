/**
 * A page for tests: defines functions on `window` that save, load and damage checkpoints in this
 * browser, in the private file system or in IndexedDB.
 */
import {
  openBlobStore,
  preferredBlobStoreMedium,
  type BlobStoreMedium,
} from '../../../src/engine/storage/blobStore.ts';
import { Checkpoints, type CheckpointList } from '../../../src/engine/storage/checkpoints.ts';
import type { CheckpointMeta } from '../../../src/formats/checkpoint.ts';
import type { StateArray } from '../../../src/formats/stateFile.ts';

export interface Saving {
  medium: BlobStoreMedium;
  meta: CheckpointMeta;
  arrays: StateArray[];
}

declare global {
  interface Window {
    preferredMedium: typeof preferredBlobStoreMedium;
    /**
     * Saves the numbers `first`, `first` + 1, ... (`count` of them) as three arrays, from a worker.
     * Resolves with 'saved', or with the text of the error.
     */
    save: (medium: BlobStoreMedium, meta: CheckpointMeta, first: number, count: number) => Promise<string>;
    list: (medium: BlobStoreMedium) => Promise<CheckpointList>;
    /**
     * Resolves with the saved arrays and the names of their types, or with the text of the error.
     */
    load: (
      medium: BlobStoreMedium,
      id: string,
    ) => Promise<{ meta: CheckpointMeta; arrays: [string, number[]][] } | string>;
    remove: (medium: BlobStoreMedium, id: string) => Promise<void>;
    /**
     * Truncates a stored checkpoint to its first `kept` bytes and inverts the byte at `changed`.
     * Creates the checkpoint if it does not exist.
     */
    spoil: (medium: BlobStoreMedium, id: string, kept: number, changed?: number) => Promise<void>;
    /** Resolves with the size of a stored checkpoint in bytes. */
    sizeOf: (medium: BlobStoreMedium, id: string) => Promise<number>;
  }
}

const worker = new Worker(new URL('./checkpointsWorker.ts', import.meta.url), { type: 'module' });

window.preferredMedium = preferredBlobStoreMedium;

window.save = (medium, meta, first, count) => {
  const numbers = Array.from({ length: count }, (_, i) => first + i);
  const arrays = [Float32Array.from(numbers), new Uint8Array([1, 2, 3]), Float64Array.from(numbers, Math.sqrt)];
  return new Promise((resolve) => {
    worker.onmessage = ({ data }: MessageEvent<string>) => resolve(data);
    worker.postMessage({ medium, meta, arrays } satisfies Saving);
  });
};

window.list = async (medium) => (await Checkpoints.open(medium)).list();

window.load = async (medium, id) => {
  try {
    const { meta, arrays } = await (await Checkpoints.open(medium)).load(id);
    return { meta, arrays: arrays.map((array) => [array.constructor.name, Array.from(array)]) };
  } catch (error) {
    return String(error);
  }
};

window.remove = async (medium, id) => (await Checkpoints.open(medium)).remove(id);

window.sizeOf = async (medium, id) => (await (await openBlobStore(medium)).read(id))!.size;

window.spoil = async (medium, id, kept, changed) => {
  const store = await openBlobStore(medium);
  const bytes = new Uint8Array(await (await store.read(id))!.slice(0, kept).arrayBuffer());
  if (changed !== undefined) bytes[changed]! ^= 1;
  await store.write(id, bytes);
};
