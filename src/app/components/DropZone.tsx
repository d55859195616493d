/** An area that receives files: through a button, or by dropping them. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import { droppedFiles, withFolders } from './pickedFiles.ts';

interface Props {
  /** Label of the button, and the hint below it. */
  choose: string;
  /** Label of a second button, which picks a folder. */
  chooseFolder?: string | undefined;
  hint: string;
  /** The attribute `accept` of the `<input>`. If it is missing, all files can be chosen. */
  accept?: string;
  /** CSS class of the button. */
  class?: string;
  onfiles: (files: File[]) => void;
  /** What is shown below the hint. */
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
          // Without this, picking the same file again would not fire a `change` event.
          currentTarget.value = '';
        }}
      />
    </>
  );
}
