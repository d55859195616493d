/** The events of a class's tabs, and waits for what all tabs of the class must do. */
import type { EngineEvent } from '../../src/protocol/events.ts';
import { systemClock } from '../../src/util/clock.ts';
import { unlessAborted, withinDeadline } from '../../src/util/deadline.ts';
import { deferred, type Deferred } from '../../src/util/deferred.ts';
import { PeergradError, TimeoutError } from '../../src/util/errors.ts';

/** What the events of a tab say about it. */
export interface TabRecord {
  /** The latest state, as a sentence. */
  detail: string;
  /** World size of the tab's generation; 0 before the first. */
  worldSize: number;
  /** Steps in the tab's generation. */
  steps: number;
}

/** Names of the tabs that have not done something yet. */
type Missing = () => readonly string[];

export class Register {
  /** Steps of all tabs in the order of time, with that time in milliseconds. */
  readonly steps: (Extract<EngineEvent, { type: 'step' }> & { seenAt: number })[] = [];
  /** Algorithms that tabs reported, in the order of their first report. */
  readonly algorithms = new Set<string>();
  readonly #tabs = new Map<string, TabRecord>();
  readonly #signal: AbortSignal;
  #failure: PeergradError | null = null;
  #wait: { missing: Missing; done: Deferred<void> } | null = null;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  /** Names of the tabs that are in the class. */
  get names(): string[] {
    return [...this.#tabs.keys()];
  }

  add(name: string): void {
    this.#tabs.set(name, { detail: 'loading the page', worldSize: 0, steps: 0 });
  }

  /** Removes a tab. Its later events are ignored. */
  remove(name: string): void {
    this.#tabs.delete(name);
  }

  on(name: string, event: EngineEvent): void {
    const tab = this.#tabs.get(name);
    if (tab === undefined) return;
    if (event.type === 'state') tab.detail = event.detail;
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
   * @throws (rejects) as `until`.
   */
  async all(what: string, ms: number, isDone: (tab: TabRecord) => boolean): Promise<void> {
    await this.until(what, ms, () => [...this.#tabs].filter(([, tab]) => !isDone(tab)).map(([name]) => name));
  }

  /**
   * Resolves when no tab is missing. `missing` is called after every event.
   *
   * @throws (rejects) TimeoutError with the missing tabs after `ms` milliseconds; PeergradError if
   *   a tab fails; the reason of the signal when it is aborted.
   */
  async until(what: string, ms: number, missing: Missing): Promise<void> {
    const done = deferred();
    this.#wait = { missing, done };
    this.#check();
    const late = (): Error => {
      const absent = missing().map((name) => `${name} (${this.#tabs.get(name)?.detail ?? 'not in the class'})`);
      return new TimeoutError(`Not all tabs ${what} within ${ms / 1000} s. Missing: ${absent.join(', ')}.`);
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
    else if (this.#wait?.missing().length === 0) this.#wait.done.resolve();
  }
}
