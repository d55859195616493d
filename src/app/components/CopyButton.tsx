/** Copies a text and confirms it. */
import { useSignal } from '@preact/signals';
import { messages } from '../locales/index.ts';

/** Time that the confirmation is shown, milliseconds. */
const CONFIRM_MS = 2000;

export function CopyButton({
  text,
  class: className,
  children,
}: {
  /** The text, or a function that returns it on a click. */
  text: string | (() => string);
  class?: string;
  children: string;
}) {
  const message = useSignal<string | null>(null);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(typeof text === 'string' ? text : text());
      message.value = messages.peek().lobby.copied;
    } catch {
      // The clipboard needs a secure page and permission.
      message.value = messages.peek().lobby.copyByHand;
    }
    setTimeout(() => (message.value = null), CONFIRM_MS);
  };
  return (
    <button type="button" class={className} onClick={() => void copy()}>
      <span aria-live="polite">{message.value ?? children}</span>
    </button>
  );
}
