/**
 * When the model is asked: never twice at once, what it has learned about once a second, and
 * nothing while nobody can see it.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { pageHidden } from '../browser/env.ts';
import { ask } from '../state/store.ts';
import { learning, prediction, type Learning, type Prediction } from './modelAnswers.ts';

/**
 * Milliseconds from an answer to the next question: weights that change faster cannot be followed.
 */
const PERIOD_MS = 1000;

/** Of all questions of this page, so that an answer to an earlier one is known as such. */
let lastId = 0;

/** Whether an element can be seen: on the screen, not folded away, in a page that is not hidden. */
export function useVisible(ref: { readonly current: Element | null }): boolean {
  const [isOnScreen, setOnScreen] = useState(false);
  useEffect(() => {
    if (ref.current === null) return undefined;
    const observer = new IntersectionObserver((entries) => setOnScreen(entries.at(-1)!.isIntersecting));
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, [ref]);
  return isOnScreen && !pageHidden.value;
}

/**
 * What the model has learned, asked anew while it learns. @param steps that it has taken, as far as
 * the page knows.
 */
export function useLearning(isVisible: boolean, steps: number): Learning | null {
  const last = learning.value;
  const isFresh = last?.learned?.steps === steps;
  useEffect(() => {
    if (!isVisible || isFresh) return undefined;
    const timer = setTimeout(() => ask({ type: 'examine' }), last === null ? 0 : PERIOD_MS);
    return () => clearTimeout(timer);
  }, [isVisible, isFresh, last]);
  return last;
}

/**
 * What the model says of an image, asked anew when it has learned more; the last answer while
 * another is on its way.
 */
export function usePrediction(pixels: Float32Array | null, steps: number): Prediction | null {
  const last = prediction.value;
  const asked = useRef<{ id: number; pixels: Float32Array; steps: number } | null>(null);
  const isPending = asked.current !== null && asked.current.id !== last?.id;
  useEffect(() => {
    if (pixels === null || isPending) return;
    if (asked.current?.pixels === pixels && asked.current.steps === steps) return;
    asked.current = { id: ++lastId, pixels, steps };
    ask({ type: 'predict', id: lastId, pixels });
  }, [pixels, steps, isPending]);
  return pixels === null ? null : last;
}
