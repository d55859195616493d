/**
 * Keeps a tab in its room: opens the tab and, whenever it is lost, opens it again until the room
 * admits it.
 */
import type { Clock } from '../src/util/clock.ts';
import { createDeferred } from '../src/util/deferred.ts';
import { errorMessageOf } from '../src/util/errors.ts';
import type { TabOutcome } from './browser/visit.ts';

/**
 * The first pause between two attempts in milliseconds, on average. The pause doubles after each
 * attempt, up to {@link LONGEST_PAUSE_MS}.
 */
export const FIRST_PAUSE_MS = 2_000;
/**
 * The longest pause in milliseconds. A room may open only after days; until then, each machine
 * tries once a minute.
 */
export const LONGEST_PAUSE_MS = 60_000;

/** A tab that its room has admitted. */
export interface AdmittedTab {
  /** Resolves with the outcome of the visit. Rejects with the reason why the tab was lost. */
  over: Promise<TabOutcome>;
  /** Closes the tab. Never rejects. */
  close: () => Promise<void>;
}

interface RejoinOptions {
  /**
   * Opens a tab, and resolves when the room has admitted it. If the room does not admit it, the tab
   * is closed, and the promise rejects with the reason.
   */
  enter: () => Promise<AdmittedTab>;
  queue: AdmissionQueue;
  clock: Clock;
  /**
   * Returns a random number in 0 .. 1 for the length of pauses, so that tabs of many machines do
   * not reconnect at the same time.
   */
  random: () => number;
  /** Called after a failed attempt, before the pause. */
  onpause: (why: string, pauseMs: number) => void;
  signal: AbortSignal;
}

/**
 * Admits the tabs of a machine one after the other: while one tab is not admitted, the other tabs
 * wait.
 */
export class AdmissionQueue {
  #last: Promise<unknown> = Promise.resolve();

  run<Result>(task: () => Promise<Result>): Promise<Result> {
    const passed = this.#last.then(task);
    this.#last = passed.catch(() => {});
    return passed;
  }
}

/**
 * Keeps a tab in its room until its visit ends.
 *
 * @throws (rejects) the reason of `signal` when it is aborted.
 */
export async function keepTabInRoom(options: RejoinOptions): Promise<TabOutcome> {
  const { enter, queue, clock, random, onpause, signal } = options;
  let pauseMs = FIRST_PAUSE_MS;
  const rest = async (error: unknown): Promise<void> => {
    signal.throwIfAborted();
    const ms = pauseMs * (0.5 + random());
    pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    onpause(errorMessageOf(error), ms);
    await sleep(clock, ms, signal);
  };
  const enterWithRetries = async (): Promise<AdmittedTab> => {
    for (;;) {
      signal.throwIfAborted();
      try {
        return await enter();
      } catch (error) {
        await rest(error);
      }
    }
  };
  for (;;) {
    const tab = await queue.run(enterWithRetries);
    const enteredAt = clock.now();
    try {
      return await tab.over;
    } catch (error) {
      await tab.close();
      // If a tab is lost after a long visit, the pauses between its attempts begin with the
      // shortest again.
      if (clock.now() - enteredAt >= LONGEST_PAUSE_MS) pauseMs = FIRST_PAUSE_MS;
      await rest(error);
    }
  }
}

/** @throws (rejects) the reason of `signal` when it is aborted. */
export async function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const slept = createDeferred();
  const cancel = clock.after(ms, () => slept.resolve());
  const interrupt = (): void => slept.reject(signal.reason);
  signal.addEventListener('abort', interrupt);
  try {
    await slept.promise;
  } finally {
    cancel();
    signal.removeEventListener('abort', interrupt);
  }
}
