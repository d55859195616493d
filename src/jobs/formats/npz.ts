/**
 * Reader for npz, NumPy's arrays by name in a zip file. Of what `numpy.savez` writes, uncompressed,
 * only rows asked for are read.
 */
import type { StoredArray } from './storedArray.ts';
import { openNpy } from './npy.ts';
import { openZip } from './zip.ts';

interface NpzFile {
  /** Of the arrays, in the file's order. */
  names: readonly string[];
  /**
   * @param name one of the names.
   * @throws (rejects) DataError, with the byte, if the array is damaged or of a kind that cannot be
   *   read.
   */
  open: (name: string) => Promise<StoredArray>;
}

/** @throws (rejects) DataError, with the byte, if it is no zip file, or a damaged one. */
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
