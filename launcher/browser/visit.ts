/** Follows one tab's visit to a room, from the tab's first event to the outcome of the visit. */
import type { EngineEvent } from '../../src/protocol/events.ts';
import type { RunResult } from '../../src/protocol/runResult.ts';
import type { Clock } from '../../src/util/clock.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { PeergradError, RemovedError, RunOverError } from '../../src/util/errors.ts';
import { RunWatch, STALL_MS } from '../watch.ts';

/** How a tab's visit ended. */
export type TabOutcome =
  | { kind: 'finished'; result: RunResult }
  /** The run was stopped or failed before its last step. */
  | { kind: 'ended'; message: string }
  /** The host removed the tab. */
  | { kind: 'removed'; message: string };

interface VisitOptions {
  name: string;
  /** Whether the tab waits for further runs. If so, the end of a run does not end the visit. */
  stays: boolean;
  clock: Clock;
}

export class Visit {
  readonly #options: VisitOptions;
  readonly #admitted = createDeferred();
  readonly #over = createDeferred<TabOutcome>();
  readonly #watch: RunWatch;

  constructor(options: VisitOptions) {
    const { name, clock } = options;
    this.#options = options;
    this.#watch = new RunWatch({
      tabs: [name],
      timeoutMs: Number.POSITIVE_INFINITY,
      stallMs: STALL_MS,
      clock,
      // The host may start the run at any time, so a long wait is normal.
      stallsWhileWaiting: false,
      mayLoseTabs: false,
    });
    this.#watch.done.catch((error: unknown) => {
      this.#admitted.reject(error);
      this.#over.reject(error);
    });
    // The caller may await only one of the promises `admitted` and `over`. A rejection of the other
    // one must not be reported as unhandled.
    for (const { promise } of [this.#admitted, this.#over]) promise.catch(() => {});
  }

  /**
   * Resolves when the room has admitted the tab.
   *
   * @throws (rejects) PeergradError with the reason why the room did not admit it.
   */
  get admitted(): Promise<void> {
    return this.#admitted.promise;
  }

  /**
   * Resolves with the outcome of the visit.
   *
   * @throws (rejects) PeergradError with the reason why the tab was lost.
   */
  get over(): Promise<TabOutcome> {
    return this.#over.promise;
  }

  on(event: EngineEvent): void {
    const { name, stays } = this.#options;
    if (event.type === 'admitted') this.#admitted.resolve();
    if (event.type === 'failed' && event.name === RemovedError.name) {
      return this.#end({ kind: 'removed', message: event.message });
    }
    const outcome: TabOutcome | null =
      event.type === 'finished'
        ? { kind: 'finished', result: event.result }
        : event.type === 'failed' && event.name === RunOverError.name
          ? { kind: 'ended', message: event.message }
          : null;
    if (outcome === null) this.#watch.on(name, event);
    else if (!stays) this.#end(outcome);
  }

  /** Ends the visit, because the page or its browser has ended. */
  fail(message: string): void {
    this.#watch.fail(this.#options.name, message);
  }

  /** Stops watching the tab. */
  close(): void {
    this.#watch.abort(new PeergradError(`${this.#options.name} has left.`));
  }

  #end(outcome: TabOutcome): void {
    this.#over.resolve(outcome);
    this.close();
  }
}
