/** Stores settings of a picture in the page's address. */
import { effect, type ReadonlySignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { keepInAddress, route } from '../../state/store.ts';

/**
 * Milliseconds without a change before it is stored: browsers refuse an address that changes more
 * than about three times a second.
 */
const SETTLED_MS = 400;

export function useInAddress(settings: ReadonlySignal<Readonly<Record<string, string | null>>>): void {
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = effect(() => {
      const wanted = settings.value;
      clearTimeout(timer);
      timer = setTimeout(() => {
        const { query } = route.peek();
        if (Object.entries(wanted).some(([name, text]) => query.get(name) !== text)) keepInAddress(wanted);
      }, SETTLED_MS);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [settings]);
}
