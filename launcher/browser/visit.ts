/**
 * One tab's visit to a room: from its page's first word to the room's last, or to the moment that
 * the tab is lost.
 */
import type { EngineEvent } from '../../src/protocol/events.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';
import type { Clock } from '../../src/util/clock.ts';
import { deferred } from '../../src/util/deferred.ts';
import { PeergradError, RemovedError, RunOverError } from '../../src/util/errors.ts';
import { RunWatch, STALL_MS } from '../watch.ts';

/** The room's last word. */
export type TabOutcome =
  | { kind: 'finished'; result: RunResult }
  /** The run was ended before that. */
  | { kind: 'ended'; message: string }
  /** The host has sent the tab out. */
  | { kind: 'removed'; message: string };

interface VisitOptions {
  name: string;
  /** It waits for further runs: no run's end is the last word. */
  stays: boolean;
  clock: Clock;
}

export class Visit {
  readonly #options: VisitOptions;
  readonly #admitted = deferred();
  readonly #over = deferred<TabOutcome>();
  readonly #watch: RunWatch;

  constructor(options: VisitOptions) {
    const { name, clock } = options;
    this.#options = options;
    this.#watch = new RunWatch({
      ...{ tabs: [name], timeoutMs: Number.POSITIVE_INFINITY, stallMs: STALL_MS, clock },
      // People start a room when they like.
      ...{ stallsWhileWaiting: false, mayLoseTabs: false },
    });
    this.#watch.done.catch((error: unknown) => {
      this.#admitted.reject(error);
      this.#over.reject(error);
    });
    // One of them is nobody's concern: who is not let in has nothing to wait for.
    for (const { promise } of [this.#admitted, this.#over]) promise.catch(() => {});
  }

  /**
   * Resolves once the room has let the tab in. @throws (rejects) PeergradError that says why not.
   */
  get admitted(): Promise<void> {
    return this.#admitted.promise;
  }

  /** The room's last word. @throws (rejects) PeergradError that says why the tab is lost. */
  get over(): Promise<TabOutcome> {
    return this.#over.promise;
  }

  on(event: EngineEvent): void {
    const { name, stays } = this.#options;
    if (event.type === 'admitted') this.#admitted.resolve();
    if (event.type === 'failed' && event.name === RemovedError.name) {
      return this.#part({ kind: 'removed', message: event.message });
    }
    const outcome: TabOutcome | null =
      event.type === 'finished'
        ? { kind: 'finished', result: event.result }
        : event.type === 'failed' && event.name === RunOverError.name
          ? { kind: 'ended', message: event.message }
          : null;
    if (outcome === null) this.#watch.on(name, event);
    else if (!stays) this.#part(outcome);
  }

  /** The page or its browser is gone. */
  fail(message: string): void {
    this.#watch.fail(this.#options.name, message);
  }

  /** Nothing more is expected of it. */
  close(): void {
    this.#watch.abort(new PeergradError(`${this.#options.name} has left.`));
  }

  #part(outcome: TabOutcome): void {
    this.#over.resolve(outcome);
    this.close();
  }
}
