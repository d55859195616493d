/** Events of one tab's engine, for tests. */
import type { EngineEvent, EventOf } from '../../../src/protocol/events.ts';

/**
 * Milliseconds to wait for an event, or for the page to show something. Long enough for slow
 * machines.
 */
export const PATIENCE_MS = 60_000;

/** Most characters of each event that an error shows. */
const STORY_LENGTH = 300;

export class EventLog {
  readonly events: EngineEvent[] = [];
  readonly #listeners = new Set<(event: EngineEvent) => void>();

  /**
   * The latest events, and the latest changes of the tab's state: a list of all events would be too
   * long.
   */
  #story(): string {
    const way = this.events.filter(({ type }) => ['state', 'generation', 'failed', 'admitted'].includes(type));
    const last = [...new Set([...way.slice(-6), ...this.events.slice(-3)])];
    return last.map((event) => JSON.stringify(event).slice(0, STORY_LENGTH)).join(', ');
  }

  receive(events: readonly EngineEvent[]): void {
    for (const event of events) {
      this.events.push(event);
      for (const listener of this.#listeners) listener(event);
    }
  }

  /**
   * Resolves with the first event of `type` for which `matches` returns true. The event may have
   * happened before the call.
   */
  event<Type extends EngineEvent['type']>(
    type: Type,
    matches: (event: EventOf<Type>) => boolean = () => true,
  ): Promise<EventOf<Type>> {
    const isIt = (event: EngineEvent): event is EventOf<Type> => event.type === type && matches(event as EventOf<Type>);
    const found = this.events.find(isIt);
    if (found) return Promise.resolve(found);
    return new Promise((resolve, reject) => {
      const look = (event: EngineEvent): void => {
        if (!isIt(event)) return;
        clearTimeout(timer);
        this.#listeners.delete(look);
        resolve(event);
      };
      const timer = setTimeout(() => {
        this.#listeners.delete(look);
        reject(
          new Error(
            `No matching "${type}" event arrived within ${PATIENCE_MS / 1000} s. The latest events: ${this.#story()}`,
          ),
        );
      }, PATIENCE_MS);
      this.#listeners.add(look);
    });
  }
}
