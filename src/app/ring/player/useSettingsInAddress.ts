/** A hook that stores settings of a picture in the address of the page. */
import { effect, type ReadonlySignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { writeSettingsToAddress, pageRoute } from '../../state/address.ts';

/**
 * A setting is stored when it has not changed for this many milliseconds. Browsers refuse an
 * address that changes more than about three times a second.
 */
const SETTLED_MS = 400;

export function useSettingsInAddress(settings: ReadonlySignal<Readonly<Record<string, string | null>>>): void {
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = effect(() => {
      const wanted = settings.value;
      clearTimeout(timer);
      timer = setTimeout(() => {
        const { query } = pageRoute.peek();
        if (Object.entries(wanted).some(([name, text]) => query.get(name) !== text)) writeSettingsToAddress(wanted);
      }, SETTLED_MS);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [settings]);
}
