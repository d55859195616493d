/** Files that somebody picked or dropped, with the folders that they are in: `cats/1.png`. */

/** A folder's files know where in it they are, but lose it on the way to a worker. */
export function withFolders(files: Iterable<File>): File[] {
  return [...files].map((file) => named(file, file.webkitRelativePath || file.name));
}

/**
 * What was dropped, folders with all that is in them. Must be called while the drop is told: later
 * its items are gone.
 */
export async function droppedFiles({ items, files }: DataTransfer): Promise<File[]> {
  const entries = [...items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  // A drop that a program makes has files and no entries.
  if (entries.length === 0) return withFolders(files);
  const all: File[] = [];
  for (const entry of entries) await collect(entry, '', all);
  return all;
}

async function collect(entry: FileSystemEntry, folder: string, into: File[]): Promise<void> {
  if (entry instanceof FileSystemFileEntry) {
    const file = await new Promise<File>((resolve, reject) => entry.file(resolve, reject));
    into.push(named(file, folder + file.name));
  } else if (entry instanceof FileSystemDirectoryEntry) {
    const reader = entry.createReader();
    // It gives some at a time, and none when there are no more.
    for (;;) {
      const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
      if (some.length === 0) return;
      for (const one of some) await collect(one, `${folder}${entry.name}/`, into);
    }
  }
}

/** The same file; nothing is copied. */
function named(file: File, path: string): File {
  return path === file.name ? file : new File([file], path, { type: file.type });
}
