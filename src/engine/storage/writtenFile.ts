/**
 * Files that are written from start to end and are too large for memory. They are in the browser's
 * private file system (OPFS). In a browser without OPFS they are blobs, which the browser may keep
 * on disk.
 */
import { privateDirectory, removeOldPrivateFiles } from '../../util/privateFiles.ts';
import { preferredBlobStoreMedium } from './blobStore.ts';

export interface WrittenFile {
  readonly content: Blob;
  /** Frees the storage. The content can no longer be read. */
  remove(): Promise<void>;
}

export interface FileWriter {
  /** @throws (rejects) DOMException if the storage is full. */
  write(bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  close(): Promise<WrittenFile>;
  /** Removes what has been written. */
  abort(): Promise<void>;
}

/** The name of the OPFS directory. */
const NAME = 'peergrad-models';
/** Files of tabs that were closed are removed after a day. */
const KEPT_MS = 24 * 60 * 60_000;

/** @throws (rejects) DOMException if storage is blocked. */
export async function createFileWriter(): Promise<FileWriter> {
  if ((await preferredBlobStoreMedium()) !== 'opfs') return createBlobWriter();
  const directory = await privateDirectory(NAME);
  await removeOldPrivateFiles(directory, Date.now() - KEPT_MS);
  const name = crypto.randomUUID();
  const handle = await directory.getFileHandle(name, { create: true });
  const writable = await handle.createWritable();
  const remove = (): Promise<void> => directory.removeEntry(name);
  return {
    write: (bytes) => writable.write(bytes),
    close: async () => {
      await writable.close();
      return { content: await handle.getFile(), remove };
    },
    abort: async () => {
      await writable.abort();
      await remove();
    },
  };
}

/** Returns a file whose parts are blobs. */
export function createBlobWriter(): FileWriter {
  const parts: Blob[] = [];
  return {
    write: (bytes) => Promise.resolve(void parts.push(new Blob([bytes]))),
    close: () => Promise.resolve({ content: new Blob(parts), remove: () => Promise.resolve() }),
    abort: () => Promise.resolve(void parts.splice(0)),
  };
}
