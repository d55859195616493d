/**
 * Delays changes of the page while the user presses a button. If an event of the engine moved the
 * button before it was released, the browser would send no click. Changes that the user makes, such
 * as an edit that ends with the press, are not delayed.
 */

/** A longer press is not a click. */
const MOST_PRESS_MS = 1000;
/** Milliseconds after the release in which a browser sends the click of a touch. */
const CLICK_MS = 350;
const BUTTONS = 'button, a, summary';

let timer: ReturnType<typeof setTimeout> | null = null;
const delayed: (() => void)[] = [];

/** Calls `change` now or, while a button is pressed, after the click. Keeps the order of calls. */
export function runAfterButtonPress(change: () => void): void {
  if (timer === null) change();
  else delayed.push(change);
}

function endIn(ms: number): void {
  if (timer !== null) clearTimeout(timer);
  timer = setTimeout(() => {
    timer = null;
    for (const change of delayed.splice(0)) change();
  }, ms);
}

/** Listens in the capture phase, in which no handler has stopped the event yet. */
function listen(type: 'pointerdown' | 'pointerup' | 'pointercancel', handle: (event: PointerEvent) => void): void {
  addEventListener(type, (event) => void (event.isPrimary && handle(event)), true);
}

export function trackButtonPresses(): void {
  listen('pointerdown', ({ target, button }) => {
    if (button === 0 && target instanceof Element && target.closest(BUTTONS)) endIn(MOST_PRESS_MS);
  });
  listen('pointerup', () => void (timer !== null && endIn(CLICK_MS)));
  listen('pointercancel', () => void (timer !== null && endIn(0)));
  // The handlers of the click are called first.
  addEventListener('click', () => void (timer !== null && endIn(0)), true);
}
