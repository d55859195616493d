/** Facts about the user's settings and the window, as signals. */
import { signal, type ReadonlySignal } from '@preact/signals';

function mediaSignal(query: string): ReadonlySignal<boolean> {
  const media = matchMedia(query);
  const matches = signal(media.matches);
  media.addEventListener('change', () => (matches.value = media.matches));
  return matches;
}

export const reducedMotion = mediaSignal('(prefers-reduced-motion: reduce)');
export const prefersDark = mediaSignal('(prefers-color-scheme: dark)');
export const pageHidden = hiddenSignal();
export const windowWidth = widthSignal();

function hiddenSignal(): ReadonlySignal<boolean> {
  const hidden = signal(document.hidden);
  document.addEventListener('visibilitychange', () => (hidden.value = document.hidden));
  return hidden;
}

function widthSignal(): ReadonlySignal<number> {
  const width = signal(innerWidth);
  addEventListener('resize', () => (width.value = innerWidth));
  return width;
}
