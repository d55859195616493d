/** The tabs of a run under faults, and their events. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { EngineEvent } from '../../src/protocol/events.ts';
import { systemClock } from '../../src/util/clock.ts';
import { PeergradError, TimeoutError } from '../../src/util/errors.ts';
import type { LaunchOptions } from '../../launcher/browser/browser.ts';
import type { Io } from '../../launcher/io.ts';
import { LiveTab } from './liveTab.ts';
import { isReported, type Observation } from './report.ts';
import type { ServerProcess } from './serverProcess.ts';

interface TabPoolOptions {
  /** Number of tabs. Each has a seat; there is one more seat for a copy. */
  tabs: number;
  server: ServerProcess;
  launch: LaunchOptions;
  /** Milliseconds for the whole run. */
  timeoutMs: number;
  io: Io;
}

/** Milliseconds for all tabs to load, compile and take a first step, all at the same time. */
const START_MS = 240_000;
/** Milliseconds for all tabs to finish after the first one has finished. */
const FINISH_MS = 30_000;
/**
 * Milliseconds between two checks of a condition. Measurements are not affected, because they use
 * the times of events.
 */
const POLL_MS = 100;

export class TabPool {
  /** In the order of time. */
  readonly observations: Observation[] = [];
  /** Tabs that were replaced, with their latest error. */
  readonly lost = new Map<string, string>();
  readonly #options: TabPoolOptions;
  readonly #seats: (LiveTab | null)[];
  readonly #endsAt: number;
  /** Errors of tabs that failed and have not trained since. */
  readonly #failures = new Map<string, string>();
  readonly #finished = new Set<string>();
  /** The different errors of pages, to log each only once. */
  readonly #errors = new Set<string>();
  readonly #closing: Promise<void>[] = [];
  #named = 0;

  constructor(options: TabPoolOptions) {
    this.#options = options;
    this.#seats = Array.from({ length: options.tabs + 1 }, () => null);
    this.#endsAt = systemClock.now() + options.timeoutMs;
  }

  /**
   * Opens a tab on each seat. Resolves when all tabs train.
   *
   * @throws (rejects) PeergradError if a tab fails or does not train in time.
   */
  async start(): Promise<void> {
    const seats = Array.from({ length: this.#options.tabs }, (_, seat) => seat);
    await Promise.all(seats.map((seat) => this.open(seat, this.newName())));
    const trains = ({ name }: LiveTab): boolean =>
      this.observations.some(({ tab, event }) => tab === name && event.type === 'step');
    const allTrain = await this.until(() => this.#failures.size > 0 || this.#seated().every(trains), START_MS);
    for (const [name, message] of this.#failures) throw new PeergradError(`${name}: ${message}`);
    if (!allTrain) throw new TimeoutError(`Not every tab trained within ${START_MS / 1000} s.`);
  }

  /** Returns a name for the next tab. */
  newName(): string {
    return `tab-${++this.#named}`;
  }

  isFree(seat: number): boolean {
    return (this.#seats[seat] ?? null) === null;
  }

  /**
   * Returns the tab on this seat. If the seat is free or its tab has failed, returns the next tab
   * that has not failed, or `null` if all have. On the last seat, which is for the copy, returns
   * the copy even if it has failed, or `null` if there is no copy.
   */
  at(seat: number): LiveTab | null {
    const { tabs } = this.#options;
    if (seat === tabs) return this.#seats[seat] ?? null;
    const inTurn = Array.from({ length: tabs }, (_, i) => this.#seats[(seat + i) % tabs] ?? null);
    return inTurn.find((tab) => tab !== null && !this.hasFailed(tab.name)) ?? null;
  }

  hasFailed(name: string): boolean {
    return this.#failures.has(name);
  }

  /** Whether a tab has finished the run. */
  get isFinished(): boolean {
    return this.#finished.size > 0;
  }

  /**
   * Resolves when the run has ended for all tabs that train.
   *
   * @throws (rejects) the errors of `until`.
   */
  async finish(): Promise<void> {
    await this.until(() => this.isFinished, Infinity);
    const hasEnded = ({ name }: LiveTab): boolean => this.#finished.has(name) || this.hasFailed(name);
    await this.until(() => this.#seated().every(hasEnded), FINISH_MS);
  }

  async open(seat: number, name: string): Promise<void> {
    const { server, launch } = this.#options;
    const url = `${server.page}#${server.room}?name=${name}&auto`;
    this.#seats[seat] = await LiveTab.open(name, url, {
      launch,
      onevent: (tab, event) => this.#onEvent(tab, event),
      onerror: (tab, message) => this.#note(`${tab}: ${message}`),
      oncrash: (tab) => this.#failures.set(tab, 'the tab crashed'),
    });
  }

  async duplicate(tab: LiveTab, name: string): Promise<void> {
    this.#seats[this.#options.tabs] = await tab.duplicate(name);
  }

  /** Removes a tab from its seat and closes its browser. */
  remove(tab: LiveTab): void {
    this.#seats[this.#seats.indexOf(tab)] = null;
    this.#closing.push(tab.dispose());
  }

  /** Replaces failed tabs with new ones. A copy is not replaced. */
  async replaceFailed(): Promise<void> {
    for (const [seat, tab] of this.#seats.entries()) {
      if (tab === null || !this.hasFailed(tab.name)) continue;
      const message = this.#failures.get(tab.name)!;
      this.lost.set(tab.name, message);
      this.#note(`${tab.name} is replaced because it failed: ${message}`);
      this.remove(tab);
      if (seat < this.#options.tabs) await this.open(seat, this.newName());
    }
  }

  /**
   * Waits until `condition` is true, for at most `ms` milliseconds. Resolves with whether it is
   * true.
   *
   * @throws (rejects) PeergradError if no tab is left that could continue or the server has ended;
   *   TimeoutError when the time of the run is up; the reason of `io.signal` when it is aborted.
   */
  async until(condition: () => boolean, ms: number): Promise<boolean> {
    const { io, server, timeoutMs } = this.#options;
    const giveUpAt = systemClock.now() + ms;
    while (!condition()) {
      const now = systemClock.now();
      if (now >= giveUpAt) return false;
      if (server.problem !== null) throw new PeergradError(server.problem);
      if (this.#seated().every(({ name }) => this.hasFailed(name))) {
        const [[name, message] = []] = [...this.#failures].slice(-1);
        throw new PeergradError(`No tab trains any more. The latest error is from ${name}: ${message}`);
      }
      if (now >= this.#endsAt) {
        throw new TimeoutError(`The run did not end within ${timeoutMs / 1000} s. Allow more time with --timeout.`);
      }
      await sleep(POLL_MS, undefined, { signal: io.signal });
    }
    return true;
  }

  /** Closes all browsers. Never rejects. */
  async close(): Promise<void> {
    for (const tab of this.#seated()) this.remove(tab);
    await Promise.all(this.#closing);
  }

  #seated(): LiveTab[] {
    return this.#seats.filter((tab) => tab !== null);
  }

  #onEvent(tab: string, event: EngineEvent): void {
    if (!isReported(event)) return;
    this.observations.push({ at: systemClock.now(), tab, event });
    if (event.type === 'failed') this.#failures.set(tab, event.message);
    else if (event.type === 'step') this.#failures.delete(tab);
    else if (event.type === 'finished') this.#finished.add(tab);
  }

  #note(line: string): void {
    if (this.#errors.has(line)) return;
    this.#errors.add(line);
    this.#options.io.err(line);
  }
}
