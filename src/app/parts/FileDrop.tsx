/** Takes the IDX files (images and labels) of jobs whose data every tab brings itself. */
import { useSignal } from '@preact/signals';
import { formatBytes } from '../format.ts';
import { words } from '../words/index.ts';
import { DropZone } from './DropZone.tsx';

export function FileDrop({ onfiles }: { onfiles: (files: File[]) => void }) {
  const { files: says } = words.value.lobby;
  const files = useSignal<File[]>([]);
  const take = (picked: File[]): void => {
    // Images and labels may come in two goes: the later of a name wins.
    const all = new Map([...files.peek(), ...picked].map((file) => [file.name, file]));
    files.value = [...all.values()];
    onfiles(files.peek());
  };
  return (
    <DropZone choose={says.choose} hint={says.drop} onfiles={take}>
      {files.value.length > 0 && (
        <ul class="plain small">
          {files.value.map((file) => (
            <li key={file.name}>
              <span class="good" aria-hidden="true">
                ✓
              </span>{' '}
              {file.name} <span class="dim">{formatBytes(file.size)}</span>
            </li>
          ))}
        </ul>
      )}
      <p class="dim small">{says.stay}</p>
    </DropZone>
  );
}
