/**
 * Blobs by name in this browser's storage, each stored completely or not at all: in its private
 * file system (OPFS), or in IndexedDB if the browser lacks one. Pages and their workers see the
 * same blobs.
 */

export type Medium = 'opfs' | 'indexeddb';

export interface BlobStore {
  names(): Promise<string[]>;
  /** Resolves with `null` if there is no blob of that name. */
  read(name: string): Promise<Blob | null>;
  /** Replaces the blob of that name once all of `bytes` are stored. */
  write(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  remove(name: string): Promise<void>;
}

/** Name of the directory or database, and of the database's object store. */
const NAME = 'peergrad-checkpoints';

/**
 * The best medium of this browser. OPFS needs a secure context, and some browsers lack it in
 * private windows.
 */
export async function preferredMedium(): Promise<Medium> {
  if (!('FileSystemFileHandle' in globalThis && 'createWritable' in FileSystemFileHandle.prototype)) return 'indexeddb';
  try {
    await navigator.storage.getDirectory();
    return 'opfs';
  } catch {
    return 'indexeddb';
  }
}

/**
 * @throws (rejects) DOMException if storage is blocked. The store's methods also reject if it is
 *   full.
 */
export async function openBlobStore(medium: Medium): Promise<BlobStore> {
  if (medium === 'indexeddb') return new DatabaseStore(await openDatabase());
  const root = await navigator.storage.getDirectory();
  return new DirectoryStore(await root.getDirectoryHandle(NAME, { create: true }));
}

/**
 * One file for each blob. `createWritable` replaces the file when it is closed, in workers and on
 * pages; with `createSyncAccessHandle` the file would be half written for a while.
 */
class DirectoryStore implements BlobStore {
  readonly #directory: FileSystemDirectoryHandle;

  constructor(directory: FileSystemDirectoryHandle) {
    this.#directory = directory;
  }

  async names(): Promise<string[]> {
    const names: string[] = [];
    for await (const name of this.#directory.keys()) names.push(name);
    return names;
  }

  async read(name: string): Promise<Blob | null> {
    try {
      const file = await (await this.#directory.getFileHandle(name)).getFile();
      // While a file is first written it exists and is empty.
      return file.size > 0 ? file : null;
    } catch (error) {
      if (isNotFound(error)) return null;
      throw error;
    }
  }

  async write(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const handle = await this.#directory.getFileHandle(name, { create: true });
    const writable = await handle.createWritable();
    try {
      // Bytes, not a blob: if storage is full, Chromium sometimes reports that a blob could not be
      // read.
      await writable.write(bytes);
      await writable.close();
    } catch (error) {
      await writable.abort().catch(() => {});
      if ((await this.read(name)) === null) await this.remove(name);
      throw error;
    }
  }

  async remove(name: string): Promise<void> {
    try {
      await this.#directory.removeEntry(name);
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }
}

function isNotFound(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'NotFoundError';
}

/** One entry of an object store for each blob: a transaction is atomic. */
class DatabaseStore implements BlobStore {
  readonly #database: IDBDatabase;

  constructor(database: IDBDatabase) {
    this.#database = database;
  }

  async names(): Promise<string[]> {
    return (await this.#run('readonly', (store) => store.getAllKeys())).map(String);
  }

  async read(name: string): Promise<Blob | null> {
    const found = await this.#run('readonly', (store): IDBRequest<unknown> => store.get(name));
    return found instanceof Blob ? found : null;
  }

  async write(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    // The contents of a blob are read on demand.
    await this.#run('readwrite', (store) => store.put(new Blob([bytes]), name));
  }

  async remove(name: string): Promise<void> {
    await this.#run('readwrite', (store) => store.delete(name));
  }

  /**
   * Resolves once the transaction is complete, not only its request: storage may turn out to be
   * full at its end.
   */
  #run<T>(mode: IDBTransactionMode, request: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const transaction = this.#database.transaction(NAME, mode);
      const requested = request(transaction.objectStore(NAME));
      transaction.oncomplete = () => resolve(requested.result);
      transaction.onabort = () => reject(transaction.error);
    });
  }
}

function openDatabase(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(NAME, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(NAME);
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
}
