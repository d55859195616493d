/**
 * The settings of the appearance (theme, size of letters), and the width of the page relative to
 * the letters.
 */
import { computed, effect, signal } from '@preact/signals';
import { prefersDark, windowWidth } from './env.ts';
import { localStorageValue } from './localStorageValue.ts';

type Theme = 'light' | 'dark';

const storedTheme = localStorageValue('peergrad.theme');
const storedSize = localStorageValue('peergrad.size');

/** The user's choice; `null` if the system's setting applies. */
const chosen = signal<Theme | null>(readTheme());
export const theme = computed<Theme>(() => chosen.value ?? (prefersDark.value ? 'dark' : 'light'));
/** Whether letters are 1.5 times as large, for a projector. */
export const isProjectorSize = signal(storedSize.get() === 'projector');

/** The factor that multiplies all sizes: `--zoom` of the style sheets. */
export const zoom = computed(() => (isProjectorSize.value ? 1.5 : 1));
/** The smallest text size on a canvas, pixels. */
export const smallTextPixels = computed(() => 13 * zoom.value);

/**
 * Limits of the page width, pixels. A page that is narrower than NARROW folds its less important
 * parts. A page that is narrower than MIDDLE has fewer columns.
 */
const NARROW = 720;
const MIDDLE = 1200;

/**
 * The width of the page, in three classes. Scripts read this signal, and style sheets read the same
 * value as an attribute. A page with large letters is treated as narrower.
 */
export const pageWidthClass = computed<'narrow' | 'middle' | 'wide'>(() => {
  const width = windowWidth.value / zoom.value;
  return width < NARROW ? 'narrow' : width < MIDDLE ? 'middle' : 'wide';
});

export function toggleTheme(): void {
  const next = theme.peek() === 'dark' ? 'light' : 'dark';
  // A choice that equals the system's setting is not stored.
  chosen.value = (next === 'dark') === prefersDark.peek() ? null : next;
  storedTheme.set(chosen.peek());
}

export function toggleProjectorSize(): void {
  isProjectorSize.value = !isProjectorSize.peek();
  storedSize.set(isProjectorSize.peek() ? 'projector' : null);
}

/**
 * Applies the theme and the size of letters that a link sets. A setting that is missing in the link
 * does not change.
 */
export function setAppearanceFromQuery(query: URLSearchParams): void {
  const asked = query.get('theme');
  if (isTheme(asked)) chosen.value = asked;
  const size = query.get('size');
  if (size !== null) isProjectorSize.value = size === 'projector';
}

/** Writes the theme, the width and the size to attributes that style sheets read. */
export function writeAppearanceAttributes(): void {
  effect(() => {
    document.documentElement.dataset['theme'] = theme.value;
    document.documentElement.dataset['width'] = pageWidthClass.value;
    document.documentElement.dataset['size'] = isProjectorSize.value ? 'projector' : 'normal';
  });
}

function readTheme(): Theme | null {
  const text = storedTheme.get();
  return isTheme(text) ? text : null;
}

function isTheme(text: string | null): text is Theme {
  return text === 'light' || text === 'dark';
}
