/** Copies a text, and says so. */
import { useSignal } from '@preact/signals';

/** How long "Copied" stays, milliseconds. */
const SAID_MS = 2000;

export function CopyButton({ text, children }: { text: string; children: string }) {
  const said = useSignal<string | null>(null);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      said.value = 'Copied ✓';
    } catch {
      // No clipboard without a secure page, or without permission.
      said.value = 'Select the link and copy it by hand';
    }
    setTimeout(() => (said.value = null), SAID_MS);
  };
  return (
    <button type="button" onClick={() => void copy()}>
      <span aria-live="polite">{said.value ?? children}</span>
    </button>
  );
}
