/**
 * Reader for npz: named NumPy arrays in a zip file. If the zip file is not compressed
 * (`numpy.savez`), rows are read on demand.
 */
import type { StoredArray } from './storedArray.ts';
import { openNpy } from './npy.ts';
import { openZip } from './zip.ts';

interface NpzFile {
  /** Names of the arrays, in the file's order. */
  names: readonly string[];
  /**
   * Opens one array.
   *
   * @param name one of `names`.
   * @throws (rejects) DataError if the array is damaged or not supported.
   */
  open: (name: string) => Promise<StoredArray>;
}

/**
 * Opens an npz file.
 *
 * @throws (rejects) DataError if the file is not a zip file or is damaged.
 */
export async function openNpz(name: string, blob: Blob): Promise<NpzFile> {
  const entries = new Map(
    (await openZip(name, blob))
      .filter(({ path }) => path.endsWith('.npy'))
      .map((entry) => [entry.path.slice(0, -'.npy'.length), entry]),
  );
  return {
    names: [...entries.keys()],
    open: async (array) => {
      const entry = entries.get(array)!;
      return openNpy(`${name}: ${entry.path}`, await entry.blob());
    },
  };
}
