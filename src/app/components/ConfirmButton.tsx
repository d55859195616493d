/**
 * A button for actions that cannot be undone. When pressed, it is replaced by a question with two
 * answers.
 */
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';

interface Props {
  label: string;
  /** The accessible name, needed if several buttons have the same label. */
  name?: string;
  title?: string;
  question: string;
  /** Labels of the two answers. */
  yes: string;
  no: string;
  class?: string;
  onyes: () => void;
}

export function ConfirmButton({ label, name, title, question, yes, no, class: className, onyes }: Props) {
  const asking = useSignal(false);
  const wasAsking = useRef(false);
  const first = useRef<HTMLButtonElement>(null);
  const back = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    // The button that had the focus was replaced, so the focus moves to a new button.
    if (asking.value) back.current?.focus();
    else if (wasAsking.current) first.current?.focus();
    wasAsking.current = asking.value;
  }, [asking.value]);
  if (!asking.value) {
    return (
      <button
        ref={first}
        type="button"
        class={className}
        aria-label={name}
        title={title}
        onClick={() => (asking.value = true)}
      >
        {label}
      </button>
    );
  }
  return (
    <span
      class="confirm"
      role="group"
      aria-label={question}
      onKeyDown={(event) => {
        if (event.key === 'Escape') asking.value = false;
      }}
    >
      <span>{question}</span>
      <button
        type="button"
        class="danger"
        onClick={() => {
          asking.value = false;
          onyes();
        }}
      >
        {yes}
      </button>
      <button ref={back} type="button" onClick={() => (asking.value = false)}>
        {no}
      </button>
    </span>
  );
}
