/**
 * Stores blobs by name in this browser's storage. Each blob is stored completely or not at all. The
 * storage is the browser's private file system (OPFS), or IndexedDB if the browser has no OPFS.
 * Pages and their workers share the same blobs.
 */

export type BlobStoreMedium = 'opfs' | 'indexeddb';

export interface BlobStore {
  names(): Promise<string[]>;
  /** Resolves with the blob, or with `null` if there is no blob of that name. */
  read(name: string): Promise<Blob | null>;
  /**
   * Stores `bytes` under this name. An existing blob is replaced only after all bytes are stored.
   */
  write(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  remove(name: string): Promise<void>;
}

/** The name of the OPFS directory, of the database, and of the database's object store. */
const NAME = 'peergrad-checkpoints';

/**
 * Resolves with the best medium of this browser. OPFS needs a secure context, and some browsers do
 * not have it in private windows.
 */
export async function preferredBlobStoreMedium(): Promise<BlobStoreMedium> {
  if (!('FileSystemFileHandle' in globalThis && 'createWritable' in FileSystemFileHandle.prototype)) return 'indexeddb';
  try {
    await navigator.storage.getDirectory();
    return 'opfs';
  } catch {
    return 'indexeddb';
  }
}

/**
 * Opens the store.
 *
 * @throws (rejects) DOMException if storage is blocked. The store's methods also reject if the
 *   storage is full.
 */
export async function openBlobStore(medium: BlobStoreMedium): Promise<BlobStore> {
  if (medium === 'indexeddb') return new DatabaseStore(await openDatabase());
  const root = await navigator.storage.getDirectory();
  return new DirectoryStore(await root.getDirectoryHandle(NAME, { create: true }));
}

/**
 * Stores each blob as a file. With `createWritable`, the file is replaced only when the stream is
 * closed, both in workers and on pages. With `createSyncAccessHandle`, the file would be incomplete
 * during the write.
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
      // During its first write a file exists, but is empty.
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
      // The bytes are written directly, not as a blob. If storage is full, Chromium sometimes
      // reports that the blob could not be read, which hides the cause.
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

/** Stores each blob as an entry of an object store. A transaction is atomic. */
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
    // The bytes are stored as a blob, because a browser reads a blob's bytes only when they are
    // needed.
    await this.#run('readwrite', (store) => store.put(new Blob([bytes]), name));
  }

  async remove(name: string): Promise<void> {
    await this.#run('readwrite', (store) => store.delete(name));
  }

  /**
   * Resolves once the whole transaction is complete, not only its request. A browser may notice
   * only at the end of the transaction that storage is full.
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
