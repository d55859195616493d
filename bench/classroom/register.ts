/** The events of a class's tabs, and waits for what all tabs of the class must do. */
import type { EngineEvent } from '../../src/protocol/events.ts';
import { systemClock } from '../../src/util/clock.ts';
import { unlessAborted, withinDeadline } from '../../src/util/deadline.ts';
import { createDeferred, type Deferred } from '../../src/util/deferred.ts';
import { PeergradError, TimeoutError } from '../../src/util/errors.ts';

/** What the events of a tab say about it. */
export interface TabRecord {
  /** The latest state, as a sentence. */
  detail: string;
  /** Whether the room has admitted the tab. */
  isAdmitted: boolean;
  /** World size of the tab's generation; 0 before the first. */
  worldSize: number;
  /** Steps in the tab's generation. */
  steps: number;
}

export class Register {
  /** Steps of all tabs in the order of time, with that time in milliseconds. */
  readonly steps: (Extract<EngineEvent, { type: 'step' }> & { seenAt: number })[] = [];
  /** Algorithms that tabs reported, in the order of their first report. */
  readonly algorithms = new Set<string>();
  readonly #tabs = new Map<string, TabRecord>();
  readonly #signal: AbortSignal;
  #failure: PeergradError | null = null;
  #wait: { isDone: (tab: TabRecord) => boolean; done: Deferred<void> } | null = null;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  /** Number of tabs that are in the class. */
  get size(): number {
    return this.#tabs.size;
  }

  add(name: string): void {
    this.#tabs.set(name, { detail: 'loading the page', isAdmitted: false, worldSize: 0, steps: 0 });
  }

  /** Removes a tab. Its later events are ignored. */
  remove(name: string): void {
    this.#tabs.delete(name);
  }

  on(name: string, event: EngineEvent): void {
    const tab = this.#tabs.get(name);
    if (tab === undefined) return;
    if (event.type === 'state') tab.detail = event.detail;
    if (event.type === 'admitted') tab.isAdmitted = true;
    if (event.type === 'generation') Object.assign(tab, { worldSize: event.worldSize, steps: 0 });
    if (event.type === 'algorithm') this.algorithms.add(event.algorithm);
    if (event.type === 'step') {
      tab.steps += 1;
      this.steps.push({ ...event, seenAt: systemClock.now() });
    }
    if (event.type === 'failed' && event.fatal) this.fail(name, event.message);
    this.#check();
  }

  /** Ends the wait with an error, because a tab of the class cannot continue. */
  fail(name: string, message: string): void {
    if (!this.#tabs.has(name)) return;
    this.#failure ??= new PeergradError(`${name}: ${message}`);
    this.#check();
  }

  /**
   * Resolves when all tabs of the class are so that `isDone` returns true.
   *
   * @throws (rejects) TimeoutError with the missing tabs after `ms` milliseconds; PeergradError if
   *   a tab fails; the reason of the signal when it is aborted.
   */
  async all(what: string, ms: number, isDone: (tab: TabRecord) => boolean): Promise<void> {
    const done = createDeferred();
    this.#wait = { isDone, done };
    this.#check();
    const late = (): Error => {
      const missing = [...this.#tabs]
        .filter(([, tab]) => !isDone(tab))
        .map(([name, { detail }]) => `${name} (${detail})`);
      return new TimeoutError(`Not all tabs ${what} within ${ms / 1000} s. Missing: ${missing.join(', ')}.`);
    };
    try {
      await unlessAborted(this.#signal, withinDeadline(systemClock, ms, done.promise, late));
    } finally {
      this.#wait = null;
    }
  }

  /** Ends the wait if its condition is true now. */
  #check(): void {
    if (this.#failure !== null) this.#wait?.done.reject(this.#failure);
    else if (this.#wait && [...this.#tabs.values()].every(this.#wait.isDone)) this.#wait.done.resolve();
  }
}
