/** Delays during presses, with a stand-in for the window that receives the pointer's events. */
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { runAfterButtonPress, trackButtonPresses } from '../../../src/app/browser/press.ts';

class FakeElement {
  readonly #selector: string;

  constructor(selector: string) {
    this.#selector = selector;
  }

  /** Whether one of the selectors in `list` matches this element or an element around it. */
  closest(list: string): FakeElement | null {
    return list.split(', ').includes(this.#selector) ? this : null;
  }
}

const handlers = new Map<string, (event: object) => void>();

function send(type: string, selector = 'button', more: object = {}): void {
  handlers.get(type)!({ target: new FakeElement(selector), button: 0, isPrimary: true, ...more });
}

beforeAll(() => {
  vi.useFakeTimers();
  vi.stubGlobal('Element', FakeElement);
  vi.stubGlobal('addEventListener', (type: string, handle: (event: object) => void) => handlers.set(type, handle));
  trackButtonPresses();
});
afterAll(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

let done: string[];
const change = (name: string): void => runAfterButtonPress(() => void done.push(name));

beforeEach(() => {
  vi.advanceTimersByTime(10_000);
  done = [];
});

describe('a change of the page', () => {
  test('is made at once while nothing is pressed', () => {
    change('a');
    expect(done).toEqual(['a']);
  });

  test('waits for the click while a button is pressed, and changes keep their order', () => {
    send('pointerdown');
    change('a');
    vi.advanceTimersByTime(400);
    send('pointerup');
    change('b');
    expect(done).toEqual([]);
    send('click');
    // The handlers of the click come first.
    expect(done).toEqual([]);
    vi.advanceTimersByTime(0);
    expect(done).toEqual(['a', 'b']);
  });

  test('waits for the click of a touch, which comes after the release', () => {
    send('pointerdown');
    change('a');
    send('pointerup');
    vi.advanceTimersByTime(349);
    expect(done).toEqual([]);
    send('click');
    vi.advanceTimersByTime(0);
    expect(done).toEqual(['a']);
  });

  test('waits 350 ms if no click follows the release, and 1 s if the button is held', () => {
    send('pointerdown');
    change('dragged');
    send('pointerup');
    vi.advanceTimersByTime(350);
    expect(done).toEqual(['dragged']);
    send('pointerdown');
    change('held');
    vi.advanceTimersByTime(999);
    expect(done).toEqual(['dragged']);
    vi.advanceTimersByTime(1);
    expect(done).toEqual(['dragged', 'held']);
  });

  test('does not wait after a press that became a scroll', () => {
    send('pointerdown');
    change('a');
    send('pointercancel');
    vi.advanceTimersByTime(0);
    expect(done).toEqual(['a']);
  });

  test.each([
    ['a slider is dragged', 'input', {}],
    ['the right button is pressed', 'button', { button: 2 }],
    ['a second finger presses', 'button', { isPrimary: false }],
  ])('does not wait while %s', (_, selector, more) => {
    send('pointerdown', selector, more);
    change('a');
    expect(done).toEqual(['a']);
  });
});
