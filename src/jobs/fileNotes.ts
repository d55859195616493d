/** Notes about files that are left out. */
import type { DataNote, DataNoteKind } from '../spec/preview.ts';

/** Notes about files, one for each folder. */
export function fileNotesByFolder(kind: DataNoteKind, paths: readonly string[]): DataNote[] {
  const notes = new Map<string, DataNote>();
  for (const path of paths) {
    const folder = folderOfPath(path);
    const note = notes.get(folder);
    if (note === undefined) notes.set(folder, { kind, count: 1, name: folder, example: path });
    else note.count++;
  }
  return [...notes.values()];
}

export function folderOfPath(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}
