/** A button that copies a text and confirms it. */
import { useSignal } from '@preact/signals';
import { uiMessages } from '../locales/index.ts';

/** Milliseconds for which the confirmation is shown. */
const CONFIRM_MS = 2000;

export function CopyButton({
  text,
  class: className,
  children,
}: {
  /** The text to copy, or a function that returns the text when the button is clicked. */
  text: string | (() => string);
  class?: string;
  children: string;
}) {
  const message = useSignal<string | null>(null);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(typeof text === 'string' ? text : text());
      message.value = uiMessages.peek().lobby.copied;
    } catch {
      // The clipboard is available only on a secure page, and with permission.
      message.value = uiMessages.peek().lobby.copyByHand;
    }
    setTimeout(() => (message.value = null), CONFIRM_MS);
  };
  return (
    <button type="button" class={className} onClick={() => void copy()}>
      <span aria-live="polite">{message.value ?? children}</span>
    </button>
  );
}
