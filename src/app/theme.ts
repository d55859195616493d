/** Light, dark, and letters large enough for a projector. */
import { computed, effect, signal } from '@preact/signals';
import { prefersDark, remembered } from './env.ts';

type Theme = 'light' | 'dark';

const storedTheme = remembered('peergrad.theme');
const storedSize = remembered('peergrad.size');

/** What the user chose here, else what the system says. */
const chosen = signal<Theme | null>(readTheme());
export const theme = computed<Theme>(() => chosen.value ?? (prefersDark.value ? 'dark' : 'light'));
/** Everything half as large again, to be read across a room. */
export const projector = signal(storedSize.get() === 'projector');

export function toggleTheme(): void {
  const next = theme.peek() === 'dark' ? 'light' : 'dark';
  // A choice that equals the system's is no choice: follow the system again.
  chosen.value = (next === 'dark') === prefersDark.peek() ? null : next;
  storedTheme.set(chosen.peek());
}

export function toggleProjector(): void {
  projector.value = !projector.peek();
  storedSize.set(projector.peek() ? 'projector' : null);
}

/** Keeps the document's attributes, which the style sheets read, in step. */
export function applyTheme(): void {
  effect(() => {
    document.documentElement.dataset['theme'] = theme.value;
    document.documentElement.dataset['size'] = projector.value ? 'projector' : 'normal';
  });
}

function readTheme(): Theme | null {
  const text = storedTheme.get();
  return text === 'light' || text === 'dark' ? text : null;
}
