/** The script by which a page reports the events of its engine to the process that opened it. */
import type { EngineEvent } from '../../src/protocol/events.ts';

/**
 * Name of the page's function that passes a batch of events to the process: a list as JSON text.
 * Playwright copies and checks lists of objects field by field, which takes ten times as long.
 */
export const BINDING = 'peergradToLauncher';

/** Key of the object by which a batch represents NaN or an infinite number, which JSON lacks. */
const NUMBER = 'peergradNumber';

/**
 * Returns a script that runs before those of the page. The app calls `peergradReport` with every
 * engine event. The events of one task are a batch: the engine sends those of several steps
 * together (`src/engine/eventBatches.ts`). Events also wait while a batch is on its way, so a busy
 * process receives a few large batches, and not more messages than it can handle.
 *
 * @param omitted types of events that are not reported.
 */
export function reportScript(omitted: readonly EngineEvent['type'][] = []): string {
  return `(() => {
    const omitted = new Set(${JSON.stringify(omitted)});
    let waiting = [];
    let isSending = false;
    const textOf = (key, value) =>
      typeof value === 'number' && !Number.isFinite(value) ? { ${NUMBER}: String(value) } : value;
    const send = async () => {
      isSending = true;
      await null;
      while (waiting.length > 0) await window.${BINDING}(JSON.stringify(waiting.splice(0), textOf)).catch(() => {});
      isSending = false;
    };
    window.peergradReport = (event) => {
      if (omitted.has(event.type)) return;
      waiting.push(event);
      if (!isSending) void send();
    };
  })();`;
}

/** Returns the events of a batch that a page passed to {@link BINDING}. */
export function eventsOf(batch: string): EngineEvent[] {
  return JSON.parse(batch, (_key, value: { [NUMBER]?: string } | null) => {
    const number = value?.[NUMBER];
    return number === undefined ? value : Number(number);
  }) as EngineEvent[];
}
