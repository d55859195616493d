/** Takes files: by a button, or dropped. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import { droppedFiles, withFolders } from './pickedFiles.ts';

interface Props {
  /** What the button says, and the hint below it. */
  choose: string;
  /** What a second button says, that takes a folder. */
  chooseFolder?: string | undefined;
  hint: string;
  /** As of an `<input>`; without it, any. */
  accept?: string;
  /** Class of the button. */
  class?: string;
  onfiles: (files: File[]) => void;
  /** Below the hint. */
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
          // The same file once more is a change, too.
          currentTarget.value = '';
        }}
      />
    </>
  );
}
