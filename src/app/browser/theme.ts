/**
 * Light, dark, letters large enough for a projector; and how wide the page is, measured in such
 * letters.
 */
import { computed, effect, signal } from '@preact/signals';
import { prefersDark, windowWidth } from './env.ts';
import { remembered } from './remembered.ts';

type Theme = 'light' | 'dark';

const storedTheme = remembered('peergrad.theme');
const storedSize = remembered('peergrad.size');

/** What the user chose here, else what the system says. */
const chosen = signal<Theme | null>(readTheme());
export const theme = computed<Theme>(() => chosen.value ?? (prefersDark.value ? 'dark' : 'light'));
/** Everything half as large again, to be read across a room. */
export const projector = signal(storedSize.get() === 'projector');

/** How much larger than usual everything is: the style sheets' `--zoom`. */
export const zoom = computed(() => (projector.value ? 1.5 : 1));
/** Text of the smallest size, pixels, for what is drawn by hand. */
export const smallText = computed(() => 13 * zoom.value);

/**
 * Below the first width everything but the essential is folded away; below the second, columns are
 * fewer. Pixels.
 */
const NARROW = 720;
const MIDDLE = 1200;

/**
 * Decided here for scripts and, by an attribute, for the style sheets: large letters make a window
 * narrower.
 */
export const pageWidth = computed<'narrow' | 'middle' | 'wide'>(() => {
  const width = windowWidth.value / zoom.value;
  return width < NARROW ? 'narrow' : width < MIDDLE ? 'middle' : 'wide';
});

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

/** Looks as a link asks for; what it does not name stays. */
export function lookAs(query: URLSearchParams): void {
  const asked = query.get('theme');
  if (isTheme(asked)) chosen.value = asked;
  const size = query.get('size');
  if (size !== null) projector.value = size === 'projector';
}

/** Keeps the document's attributes, which the style sheets read, in step. */
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
