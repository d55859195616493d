/** This rank's state in words, with an icon. Spoken by screen readers when it changes. */
import { spokenState } from '../derive.ts';
import type { View } from '../view.ts';

const ICONS = { good: '●', busy: '◌', wait: '○', wrong: '✕' } as const;

export function StatusLine({ view }: { view: View }) {
  const { word, detail, mood } = spokenState(view);
  return (
    <p class="status" role="status">
      <span class={`status-icon ${mood}`} aria-hidden="true">
        {ICONS[mood]}
      </span>
      <span class="status-word">{word}</span>
      {detail !== '' && <span class="dim">{detail}</span>}
    </p>
  );
}
