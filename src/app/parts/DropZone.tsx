/** Takes files: by a button, or dropped. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';

interface Props {
  /** What the button says, and the hint below it. */
  choose: string;
  hint: string;
  /** As of an `<input>`; without it, any. */
  accept?: string;
  /** Class of the button. */
  class?: string;
  onfiles: (files: File[]) => void;
  /** Below the hint. */
  children?: ComponentChildren;
}

export function DropZone({ choose, hint, accept, class: className, onfiles, children }: Props) {
  const input = useRef<HTMLInputElement>(null);
  const over = useSignal(false);
  const take = (files: FileList | null | undefined): void => {
    if (files && files.length > 0) onfiles([...files]);
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
        take(event.dataTransfer?.files);
      }}
    >
      <p>
        <button type="button" class={className} onClick={() => input.current?.click()}>
          {choose}
        </button>
      </p>
      <p class="dim small">{hint}</p>
      <input
        ref={input}
        class="away"
        type="file"
        accept={accept}
        multiple
        tabIndex={-1}
        aria-label={choose}
        onChange={({ currentTarget }) => {
          take(currentTarget.files);
          // The same file once more is a change, too.
          currentTarget.value = '';
        }}
      />
      {children}
    </div>
  );
}
