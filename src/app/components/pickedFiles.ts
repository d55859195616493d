/** Files that the user picked or dropped, named by their folder and name: `cats/1.png`. */

/**
 * A file that was picked with its folder knows its path, but loses the path when it is sent to a
 * worker. So the path becomes its name.
 */
export function withFolders(files: Iterable<File>): File[] {
  return [...files].map((file) => named(file, file.webkitRelativePath || file.name));
}

/**
 * Returns all dropped files, including the content of folders. Must be called during the drop
 * event, because the items of the event are not available later.
 */
export async function droppedFiles({ items, files }: DataTransfer): Promise<File[]> {
  const entries = [...items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  // A drop that a program simulates has files but no entries.
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

/** Returns the same file under another name. Its content is not copied. */
function named(file: File, path: string): File {
  return path === file.name ? file : new File([file], path, { type: file.type });
}
