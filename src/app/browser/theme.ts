/** Theme, size of letters, and the width of the page measured in letters. */
import { computed, effect, signal } from '@preact/signals';
import { prefersDark, windowWidth } from './env.ts';
import { remembered } from './remembered.ts';

type Theme = 'light' | 'dark';

const storedTheme = remembered('peergrad.theme');
const storedSize = remembered('peergrad.size');

/** The user's choice, else the system's. */
const chosen = signal<Theme | null>(readTheme());
export const theme = computed<Theme>(() => chosen.value ?? (prefersDark.value ? 'dark' : 'light'));
/** Large letters, by a factor of 1.5, for a projector. */
export const projector = signal(storedSize.get() === 'projector');

/** The factor of all sizes: the style sheets' `--zoom`. */
export const zoom = computed(() => (projector.value ? 1.5 : 1));
/** Smallest text size of canvases, pixels. */
export const smallText = computed(() => 13 * zoom.value);

/**
 * Widths, pixels: below the first, less important parts are folded; below the second, there are
 * fewer columns.
 */
const NARROW = 720;
const MIDDLE = 1200;

/**
 * Computed here for scripts and, as an attribute, for the style sheets. Large letters make a window
 * narrower.
 */
export const pageWidth = computed<'narrow' | 'middle' | 'wide'>(() => {
  const width = windowWidth.value / zoom.value;
  return width < NARROW ? 'narrow' : width < MIDDLE ? 'middle' : 'wide';
});

export function toggleTheme(): void {
  const next = theme.peek() === 'dark' ? 'light' : 'dark';
  // A choice that equals the system's setting is dropped.
  chosen.value = (next === 'dark') === prefersDark.peek() ? null : next;
  storedTheme.set(chosen.peek());
}

export function toggleProjector(): void {
  projector.value = !projector.peek();
  storedSize.set(projector.peek() ? 'projector' : null);
}

/** Applies the theme and size of a link; missing settings are unchanged. */
export function lookAs(query: URLSearchParams): void {
  const asked = query.get('theme');
  if (isTheme(asked)) chosen.value = asked;
  const size = query.get('size');
  if (size !== null) projector.value = size === 'projector';
}

/** Updates the attributes of the document that style sheets read. */
export function applyTheme(): void {
  effect(() => {
    document.documentElement.dataset['theme'] = theme.value;
    document.documentElement.dataset['width'] = pageWidth.value;
    document.documentElement.dataset['size'] = projector.value ? 'projector' : 'normal';
  });
}

function readTheme(): Theme | null {
  const text = storedTheme.get();
  return isTheme(text) ? text : null;
}

function isTheme(text: string | null): text is Theme {
  return text === 'light' || text === 'dark';
}
