/** An area that receives files: through a button, or by dropping them. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';

interface Props {
  /** Label of the button, and the hint below it. */
  choose: string;
  /** Label of a second button, which picks a folder. */
  chooseFolder?: string | undefined;
  hint: string;
  /** The attribute `accept` of the `<input>`. If it is missing, all files can be chosen. */
  accept?: string;
  class?: string;
  onfiles: (files: File[]) => void;
  /** Content below the hint. */
  children?: ComponentChildren;
}

export function DropZone({ choose, chooseFolder, hint, accept, class: className, onfiles, children }: Props) {
  const over = useSignal(false);
  const take = (files: File[]): void => {
    if (files.length > 0) onfiles(files);
  };
  return (
    <div
      class={over.value ? 'drop over' : 'drop'}
      onDragOver={(event) => {
        event.preventDefault();
        over.value = true;
      }}
      onDragLeave={() => (over.value = false)}
      onDrop={(event) => {
        event.preventDefault();
        over.value = false;
        if (event.dataTransfer) void droppedFiles(event.dataTransfer).then(take);
      }}
    >
      <p class="row">
        <Picker label={choose} class={className} accept={accept} ontake={take} />
        {chooseFolder !== undefined && <Picker label={chooseFolder} class={className} isFolder ontake={take} />}
      </p>
      <p class="dim small">{hint}</p>
      {children}
    </div>
  );
}

interface PickerProps {
  label: string;
  class?: string | undefined;
  accept?: string | undefined;
  isFolder?: boolean;
  ontake: (files: File[]) => void;
}

function Picker({ label, class: className, accept, isFolder = false, ontake }: PickerProps) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" class={className} onClick={() => input.current?.click()}>
        {label}
      </button>
      <input
        ref={input}
        class="away"
        type="file"
        accept={accept}
        multiple
        {...(isFolder && { webkitdirectory: true })}
        tabIndex={-1}
        aria-label={label}
        onChange={({ currentTarget }) => {
          ontake(withFolders(currentTarget.files ?? []));
          // The input is cleared, so that picking the same file again fires a `change` event.
          currentTarget.value = '';
        }}
      />
    </>
  );
}

/**
 * A file that was picked with its folder knows its path, but loses the path when it is sent to a
 * worker. So the path becomes its name.
 */
function withFolders(files: Iterable<File>): File[] {
  return [...files].map((file) => named(file, file.webkitRelativePath || file.name));
}

/**
 * Returns all dropped files, including the content of folders. Must be called during the drop
 * event, because the items of the event are not available after the event.
 */
async function droppedFiles({ items, files }: DataTransfer): Promise<File[]> {
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
    // The reader returns the entries of the folder in batches, and an empty batch at the end.
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
