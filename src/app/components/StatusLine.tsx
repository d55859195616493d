/** Shows the state of this rank in words, with an icon. Screen readers read its changes. */
import { describeTabState } from '../state/describeTabState.ts';
import type { TabView } from '../state/view.ts';

const ICONS = { good: '●', busy: '◌', wait: '○', wrong: '✕' } as const;

export function StatusLine({ view, brief = false }: { view: TabView; brief?: boolean }) {
  const { word, text, status } = describeTabState(view);
  return (
    <span class="status" role="status">
      <span class={`status-icon ${status}`} aria-hidden="true">
        {ICONS[status]}
      </span>
      <span>
        <span class="status-word">{word}</span>
        {!brief && <span class="dim">{text.slice(word.length)}</span>}
      </span>
    </span>
  );
}
