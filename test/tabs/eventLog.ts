/** Events of one tab's engine, for tests. */
import type { EngineEvent, EventOf } from '../../src/protocol/events.ts';

/**
 * Milliseconds to wait for an event, or for the page to show something. Long enough for slow
 * machines.
 */
export const PATIENCE_MS = 60_000;

/** Most characters of each event that an error shows. */
const STORY_LENGTH = 300;

export class EventLog {
  readonly events: EngineEvent[] = [];
  readonly #listeners = new Set<() => void>();

  /**
   * The latest events, and the latest changes of the tab's state: a list of all events would be too
   * long.
   */
  #story(): string {
    const way = this.events.filter(({ type }) => ['state', 'generation', 'failed', 'admitted'].includes(type));
    const last = [...new Set([...way.slice(-6), ...this.events.slice(-3)])];
    return last.map((event) => JSON.stringify(event).slice(0, STORY_LENGTH)).join(', ');
  }

  receive(event: EngineEvent): void {
    this.events.push(event);
    for (const listener of this.#listeners) listener();
  }

  /**
   * Resolves with the first event of `type` for which `matches` returns true. The event may have
   * happened before the call.
   */
  event<Type extends EngineEvent['type']>(
    type: Type,
    matches: (event: EventOf<Type>) => boolean = () => true,
  ): Promise<EventOf<Type>> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const found = this.events.find(
          (event): event is EventOf<Type> => event.type === type && matches(event as EventOf<Type>),
        );
        if (!found) return;
        clearTimeout(timer);
        this.#listeners.delete(look);
        resolve(found);
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
      look();
    });
  }
}
