/** Files in the browser's private file system (OPFS). */

/** The part of `FileSystemSyncAccessHandle` that is used. TypeScript's types for pages lack it. */
export interface SyncAccessHandle {
  read(into: ArrayBufferView, options: { at: number }): number;
  write(values: ArrayBufferView, options: { at: number }): number;
  close(): void;
}

/** Declares a method that exists only in workers. */
interface WorkerFileHandle extends FileSystemFileHandle {
  createSyncAccessHandle(options?: { mode: 'readwrite-unsafe' }): Promise<SyncAccessHandle>;
}

/** Returns a directory, which is created if it does not exist. */
export async function privateDirectory(name: string): Promise<FileSystemDirectoryHandle> {
  const root = await navigator.storage.getDirectory();
  return root.getDirectoryHandle(name, { create: true });
}

/**
 * Opens a file in a worker, and creates it if it does not exist.
 *
 * @param isShared whether other workers may open the file at the same time. Only some browsers
 *   support this.
 * @throws (rejects) DOMException if the file cannot be opened.
 */
export async function openPrivateFile(
  directory: FileSystemDirectoryHandle,
  name: string,
  isShared = false,
): Promise<SyncAccessHandle> {
  const handle = (await directory.getFileHandle(name, { create: true })) as WorkerFileHandle;
  return isShared ? handle.createSyncAccessHandle({ mode: 'readwrite-unsafe' }) : handle.createSyncAccessHandle();
}

/**
 * Removes files that were last written before `limit`, in milliseconds since 1970. Then removes the
 * oldest files until all files have at most `mostBytes`. Files that are open remain.
 */
export async function removeOldPrivateFiles(
  directory: FileSystemDirectoryHandle,
  limit: number,
  mostBytes = Infinity,
): Promise<void> {
  const files: File[] = [];
  for await (const handle of directory.values()) {
    if (handle instanceof FileSystemFileHandle) files.push(await handle.getFile());
  }
  let bytes = 0;
  for (const { name, size, lastModified } of files.toSorted((a, b) => b.lastModified - a.lastModified)) {
    bytes += size;
    if (lastModified < limit || bytes > mostBytes) await directory.removeEntry(name).catch(() => {});
  }
}
