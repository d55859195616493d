/** Copies a text, and says so. */
import { useSignal } from '@preact/signals';
import { messages } from '../locales/index.ts';

/** How long "Copied" stays, milliseconds. */
const SAID_MS = 2000;

export function CopyButton({
  text,
  class: className,
  children,
}: {
  /** Or what gives it when it is asked for. */
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
      // No clipboard without a secure page, or without permission.
      message.value = messages.peek().lobby.copyByHand;
    }
    setTimeout(() => (message.value = null), SAID_MS);
  };
  return (
    <button type="button" class={className} onClick={() => void copy()}>
      <span aria-live="polite">{message.value ?? children}</span>
    </button>
  );
}
