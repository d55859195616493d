/**
 * Holds back rendering while the user presses a button. If an event of the engine moved the button
 * before it was released, the browser would send no click.
 */
import { options } from 'preact';

/** A longer press is not a click. */
const MOST_PRESS_MS = 1000;
const BUTTONS = 'button, a, summary, label';

export function renderBetweenPresses(): void {
  let pressed: ReturnType<typeof setTimeout> | null = null;
  let held: (() => void) | null = null;
  const release = (): void => {
    if (pressed === null) return;
    clearTimeout(pressed);
    pressed = null;
    const render = held;
    held = null;
    // The click follows the release of the button, and rendering follows the click.
    if (render) setTimeout(render);
  };
  options.debounceRendering = (render) => {
    if (pressed === null) queueMicrotask(render);
    else held = render;
  };
  // Listeners in the capture phase receive events before a handler can stop them.
  addEventListener(
    'pointerdown',
    ({ target }) => {
      release();
      if (target instanceof Element && target.closest(BUTTONS)) pressed = setTimeout(release, MOST_PRESS_MS);
    },
    true,
  );
  for (const type of ['pointerup', 'pointercancel']) addEventListener(type, release, true);
}
