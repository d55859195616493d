/** Takes the IDX files (images and labels) of jobs whose data every tab brings itself. */
import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { formatBytes } from '../format.ts';
import { words } from '../words/index.ts';

export function FileDrop({ onfiles }: { onfiles: (files: File[]) => void }) {
  const { files: says } = words.value.lobby;
  const input = useRef<HTMLInputElement>(null);
  const over = useSignal(false);
  const files = useSignal<File[]>([]);
  const take = (picked: FileList | null): void => {
    if (picked === null || picked.length === 0) return;
    // Images and labels may come in two goes: the later of a name wins.
    const all = new Map([...files.peek(), ...picked].map((file) => [file.name, file]));
    files.value = [...all.values()];
    onfiles(files.peek());
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
        take(event.dataTransfer?.files ?? null);
      }}
    >
      <p>
        <button type="button" onClick={() => input.current?.click()}>
          {says.choose}
        </button>
      </p>
      <p class="dim small">{says.drop}</p>
      <input
        ref={input}
        class="away"
        type="file"
        multiple
        tabIndex={-1}
        aria-label={says.label}
        onChange={(event) => take(event.currentTarget.files)}
      />
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
    </div>
  );
}
