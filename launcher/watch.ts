/**
 * Follows the events of several tabs until all have finished, one has failed, or the time is up.
 */
import type { EngineEvent, RankState } from '../src/protocol/events.ts';
import type { RunResult } from '../src/protocol/runResult.ts';
import type { Clock } from '../src/util/clock.ts';
import { createDeferred } from '../src/util/deferred.ts';
import { PeergradError, TimeoutError } from '../src/util/errors.ts';

/**
 * Milliseconds without an event of any tab after which the run fails. The time is long, because the
 * shaders of a large model compile for tens of seconds if WebGPU runs in software.
 */
export const STALL_MS = 120_000;

interface WatchOptions {
  /** Names of the tabs to wait for. */
  tabs: readonly string[];
  /** Milliseconds for the whole run. */
  timeoutMs: number;
  /** Milliseconds without an event after which the run fails. */
  stallMs: number;
  /**
   * Whether the run also fails if there is no event while all tabs wait for the start. `false` if a
   * person starts the run.
   */
  stallsWhileWaiting: boolean;
  /** Whether the other tabs continue without a lost tab. */
  mayLoseTabs: boolean;
  clock: Clock;
}

interface Tab {
  state: RankState;
  /** Steps taken. */
  step: number;
  isLost: boolean;
  result: RunResult | null;
}

export class RunWatch {
  readonly #options: WatchOptions;
  readonly #tabs: ReadonlyMap<string, Tab>;
  readonly #done = createDeferred<RunResult[]>();
  readonly #startedAt: number;
  #lastEventAt: number;
  #cancelTimer: () => void = () => {};

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#tabs = new Map(
      options.tabs.map((name) => [name, { state: 'OFFLINE', step: 0, isLost: false, result: null }]),
    );
    this.#startedAt = options.clock.now();
    this.#lastEventAt = this.#startedAt;
    // If opening the tabs fails, nobody may be awaiting this promise yet. Its rejection must not be
    // reported as unhandled.
    this.#done.promise.catch(() => {});
    this.#watchTime();
  }

  /**
   * Resolves with the results in the order of the tabs. If tabs may be lost, the results of lost
   * tabs are left out.
   *
   * @throws (rejects) PeergradError if a tab failed before it finished. If tabs may be lost, it
   *   rejects only when all tabs have failed. The error names the tab whose failure ended the run.
   * @throws (rejects) TimeoutError if a time limit is exceeded. The error names each tab's state.
   */
  get done(): Promise<RunResult[]> {
    return this.#done.promise;
  }

  on(name: string, event: EngineEvent): void {
    const tab = this.#tabs.get(name);
    if (tab === undefined) return;
    this.#lastEventAt = this.#options.clock.now();
    if (event.type === 'state') tab.state = event.state;
    else if (event.type === 'step') Object.assign(tab, { step: event.step + 1, isLost: false });
    else if (event.type === 'failed') this.fail(name, event.message);
    else if (event.type === 'finished') {
      tab.result = event.result;
      this.#finishIfAllHave();
    }
  }

  hasFinished(name: string): boolean {
    return (this.#tabs.get(name)?.result ?? null) !== null;
  }

  #finishIfAllHave(): void {
    const tabs = [...this.#tabs.values()].filter(({ isLost }) => !isLost);
    const results = tabs.map(({ result }) => result).filter((result) => result !== null);
    if (tabs.length === 0 || results.length < tabs.length) return;
    this.#cancelTimer();
    this.#done.resolve(results);
  }

  /**
   * Marks a tab as lost. The run then fails, unless the other tabs may continue without the tab. If
   * the tab has already finished, its failures are ignored: for example, it may report that the
   * server has closed.
   */
  fail(name: string, message: string): void {
    const tab = this.#tabs.get(name);
    if (tab === undefined || tab.result !== null) return;
    tab.isLost = true;
    if (this.#options.mayLoseTabs && [...this.#tabs.values()].some(({ isLost }) => !isLost))
      return this.#finishIfAllHave();
    this.abort(new PeergradError(`${name}: ${message.replace(/[^.!?]$/, '$&.')}`));
  }

  /** Rejects with `error`, unless the run has ended. */
  abort(error: unknown): void {
    this.#cancelTimer();
    this.#done.reject(error);
  }

  /** Waits until one of the two time limits could be reached, and then checks both again. */
  #watchTime(): void {
    const { clock, timeoutMs, stallMs, stallsWhileWaiting } = this.#options;
    const now = clock.now();
    const states = Array.from(this.#tabs.values(), (tab) => tab.state);
    if (!stallsWhileWaiting && states.every((state) => state === 'WAITING')) this.#lastEventAt = now;
    const untilTimeout = this.#startedAt + timeoutMs - now;
    const untilStall = this.#lastEventAt + stallMs - now;
    if (untilTimeout <= 0) {
      const message = `The run did not end within ${timeoutMs / 1000} s (${this.#describe()}). Allow more time with --timeout.`;
      this.abort(new TimeoutError(message));
    } else if (untilStall <= 0) {
      this.abort(new TimeoutError(`There was no progress for ${stallMs / 1000} s: ${this.#describe()}.`));
    } else {
      this.#cancelTimer = clock.after(Math.min(untilTimeout, untilStall), () => this.#watchTime());
    }
  }

  #describe(): string {
    const tabs = Array.from(this.#tabs, ([name, tab]) => {
      if (tab.result !== null) return `${name} has finished`;
      return tab.step > 0 ? `${name} is ${tab.state} after step ${tab.step}` : `${name} is ${tab.state}`;
    });
    return tabs.join(', ');
  }
}
