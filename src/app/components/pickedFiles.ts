/** Picked or dropped files, with their folders: `cats/1.png`. */

/** A file of a folder knows its path, but loses it on the way to a worker. */
export function withFolders(files: Iterable<File>): File[] {
  return [...files].map((file) => named(file, file.webkitRelativePath || file.name));
}

/**
 * All dropped files, with the content of folders. Must be called during the drop event: its items
 * are gone later.
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
    // The reader returns entries in batches, and an empty batch at the end.
    for (;;) {
      const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
      if (some.length === 0) return;
      for (const one of some) await collect(one, `${folder}${entry.name}/`, into);
    }
  }
}

/** The same file under another name; nothing is copied. */
function named(file: File, path: string): File {
  return path === file.name ? file : new File([file], path, { type: file.type });
}
