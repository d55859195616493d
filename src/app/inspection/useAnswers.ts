/**
 * Hooks that ask the model one question at a time. While the panel is not visible, nothing is
 * requested.
 */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { pageHidden } from '../browser/env.ts';
import { sendToEngine } from '../state/store.ts';
import {
  latestInspection,
  inspectionPauseMs,
  latestPrediction,
  type ModelInspectionAnswer,
  type PredictionAnswer,
} from '../state/modelAnswers.ts';

/** The id of the latest request for a prediction. The answer has the same id. */
let lastId = 0;

/**
 * Margin of the window. Nobody looks at an element there: it has just appeared, or has almost left.
 */
const MARGIN = '-20% 0px';

/** Returns whether an element is well on the screen, is not folded, and is on a visible page. */
export function useIsVisible(ref: { readonly current: Element | null }): boolean {
  const [isOnScreen, setOnScreen] = useState(false);
  useEffect(() => {
    if (ref.current === null) return undefined;
    const observer = new IntersectionObserver((entries) => setOnScreen(entries.at(-1)!.isIntersecting), {
      rootMargin: MARGIN,
    });
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, [ref]);
  return isOnScreen && !pageHidden.value;
}

/**
 * Returns the latest inspection of the model, and requests it again while the model trains.
 *
 * @param steps the number of steps that the model has trained, according to the page.
 * @param isTraining whether an inspection delays further steps.
 */
export function useInspection(isVisible: boolean, steps: number, isTraining: boolean): ModelInspectionAnswer | null {
  const last = latestInspection.value;
  const isFresh = last?.inspection?.steps === steps;
  // A panel that is created again does not know when the latest inspection was requested.
  const askedAt = useRef(performance.now());
  const took = useMemo(() => performance.now() - askedAt.current, [last]);
  const period = last === null ? 0 : inspectionPauseMs(took, isTraining);
  useEffect(() => {
    if (!isVisible || isFresh) return undefined;
    const timer = setTimeout(() => {
      askedAt.current = performance.now();
      sendToEngine({ type: 'inspect' });
    }, period);
    return () => clearTimeout(timer);
  }, [isVisible, isFresh, period, last]);
  return last;
}

/**
 * Returns the model's answer to an image, and asks again after more steps. The previous answer is
 * returned until the next one arrives.
 */
export function usePrediction(pixels: Float32Array | null, steps: number): PredictionAnswer | null {
  const last = latestPrediction.value;
  const asked = useRef<{ id: number; pixels: Float32Array; steps: number } | null>(null);
  const isPending = asked.current !== null && asked.current.id !== last?.id;
  useEffect(() => {
    if (pixels === null || isPending) return;
    if (asked.current?.pixels === pixels && asked.current.steps === steps) return;
    asked.current = { id: ++lastId, pixels, steps };
    sendToEngine({ type: 'predict', id: lastId, pixels });
  }, [pixels, steps, isPending]);
  return pixels === null ? null : last;
}
