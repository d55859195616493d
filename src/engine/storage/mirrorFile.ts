/**
 * Stores the copy of another rank's stage. A large copy is a file in the browser's private file
 * system (OPFS), because a tab that needs a pipeline has no memory for a second stage.
 */
import {
  openStageMirrorInMemory,
  type StageMirrorStorage,
  type OpenStageMirrorStorage,
} from '../../parallel/pipeline/mirrorStorage.ts';
import { StorageError } from '../../util/errors.ts';
import { openPrivateFile, privateDirectory } from '../../util/privateFiles.ts';

/** The largest copy that is kept in memory. */
const MEMORY_BYTES = 64 * 1024 ** 2;
/**
 * Number of attempts to create a file. Another tab may remove a new file before this tab has locked
 * it.
 */
const ATTEMPTS = 2;
/** Number of elements that are written at a time when a file is created (4 MiB). */
const ZEROS = 1024 ** 2;
/** The name of the OPFS directory. */
const DIRECTORY = 'peergrad-mirrors';

/** If the browser has no OPFS, or its storage is full, the copy is kept in memory. */
export const openStageMirrorStorage: OpenStageMirrorStorage = async (elements) => {
  const bytes = elements * Float32Array.BYTES_PER_ELEMENT;
  if (bytes <= MEMORY_BYTES) return openStageMirrorInMemory(elements);
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    try {
      return await openFile(bytes);
    } catch {
      // The error is ignored: another attempt follows, or the copy is kept in memory.
    }
  }
  return openStageMirrorInMemory(elements);
};

/** @throws (rejects) DOMException if the file cannot be created. */
async function openFile(bytes: number): Promise<StageMirrorStorage> {
  const directory = await privateDirectory(DIRECTORY);
  await removeUnused(directory);
  const name = crypto.randomUUID();
  const access = await openPrivateFile(directory, name);
  const close = (): void => {
    access.close();
    // A file that is not removed now is removed when the next one is opened.
    directory.removeEntry(name).catch(() => {});
  };
  try {
    // Storage may be full although a file can be created, so the whole file is written now.
    const zeros = new Float32Array(ZEROS);
    for (let at = 0; at < bytes; at += zeros.byteLength) {
      const part = zeros.subarray(0, Math.min(ZEROS, (bytes - at) / zeros.BYTES_PER_ELEMENT));
      check(access.write(part, { at }), part);
    }
    return {
      read: (at, into) => check(access.read(into, { at: at * into.BYTES_PER_ELEMENT }), into),
      write: (at, values) => check(access.write(values, { at: at * values.BYTES_PER_ELEMENT }), values),
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

/** Removes files of tabs that were closed. A file that a tab uses cannot be removed. */
async function removeUnused(directory: FileSystemDirectoryHandle): Promise<void> {
  for await (const name of directory.keys()) await directory.removeEntry(name).catch(() => {});
}

/** @throws StorageError if fewer bytes were read or written than `array` has. */
function check(bytes: number, array: Float32Array): void {
  if (bytes === array.byteLength) return;
  throw new StorageError(
    `The copy of another tab's layers is incomplete: ${bytes} of ${array.byteLength} bytes were stored. Free some disk space, and ` +
      'reload the page.',
  );
}
