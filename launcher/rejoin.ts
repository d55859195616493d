/** Keeps a tab in its room: it reconnects whenever it is lost, until it is admitted. */
import type { Clock } from '../src/util/clock.ts';
import { deferred } from '../src/util/deferred.ts';
import { messageOf } from '../src/util/errors.ts';
import type { TabOutcome } from './browser/visit.ts';

/** Milliseconds before the second attempt, on average; doubled each time up to the longest. */
export const FIRST_PAUSE_MS = 2_000;
/**
 * Longest pause in milliseconds: a room may open after days, and each machine asks once a minute.
 */
export const LONGEST_PAUSE_MS = 60_000;

/** A tab that its room has admitted. */
export interface AdmittedTab {
  /** How the visit ended. Rejects with the reason why the tab was lost. */
  over: Promise<TabOutcome>;
  /** Closes the tab. Never rejects. */
  close: () => Promise<void>;
}

interface RejoinOptions {
  /**
   * Resolves when the room has admitted the tab. Rejects with the reason why not, and leaves
   * nothing open then.
   */
  enter: () => Promise<AdmittedTab>;
  queue: AdmissionQueue;
  clock: Clock;
  /** Returns 0 .. 1: tabs of many machines should not reconnect at the same time. */
  random: () => number;
  /** Called after a failed attempt, before the pause. */
  onpause: (why: string, pauseMs: number) => void;
  signal: AbortSignal;
}

/** Runs one task at a time: while one tab of a machine is not admitted, its other tabs wait. */
export class AdmissionQueue {
  #last: Promise<unknown> = Promise.resolve();

  run<Result>(task: () => Promise<Result>): Promise<Result> {
    const passed = this.#last.then(task);
    this.#last = passed.catch(() => {});
    return passed;
  }
}

/** Keeps a tab in its room until its visit ends. @throws (rejects) the reason of `signal`. */
export async function keepTabInRoom(options: RejoinOptions): Promise<TabOutcome> {
  const { enter, queue, clock, random, onpause, signal } = options;
  let pauseMs = FIRST_PAUSE_MS;
  const rest = async (error: unknown): Promise<void> => {
    signal.throwIfAborted();
    const ms = pauseMs * (0.5 + random());
    pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    onpause(messageOf(error), ms);
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
      // A tab that was lost after a long visit starts with the shortest pause again.
      if (clock.now() - enteredAt >= LONGEST_PAUSE_MS) pauseMs = FIRST_PAUSE_MS;
      await rest(error);
    }
  }
}

async function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  const slept = deferred();
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
