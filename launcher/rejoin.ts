/** A tab that comes back to its room: whenever it is lost, and until it is let in. */
import type { Clock } from '../src/util/clock.ts';
import { deferred } from '../src/util/deferred.ts';
import { messageOf } from '../src/util/errors.ts';
import type { TabOutcome } from './browser/visit.ts';

/** Milliseconds before the second try, about; doubled each time, up to the most. */
export const FIRST_PAUSE_MS = 2_000;
/** A room may not be there for days: each machine that waits for it asks once a minute. */
export const LONGEST_PAUSE_MS = 60_000;

/** A tab that is in its room. */
export interface Stay {
  /** The room's last word. Rejects with why the tab is lost. */
  over: Promise<TabOutcome>;
  /** Never rejects. */
  close: () => Promise<void>;
}

interface ReturnOptions {
  /**
   * Resolves once the room has let the tab in. Rejects with why not, and leaves nothing open then.
   */
  enter: () => Promise<Stay>;
  door: Door;
  clock: Clock;
  /** 0 .. 1: tabs of many machines should not come all at once. */
  random: () => number;
  /** It failed, and is tried again after a pause. */
  onpause: (why: string, pauseMs: number) => void;
  signal: AbortSignal;
}

/** One tab of a machine at a time tries to be let in: where one is not, the others need not ask. */
export class Door {
  #last: Promise<unknown> = Promise.resolve();

  pass<Result>(task: () => Promise<Result>): Promise<Result> {
    const passed = this.#last.then(task);
    this.#last = passed.catch(() => {});
    return passed;
  }
}

/** Keeps a tab in its room until the room's last word. @throws (rejects) the reason of `signal`. */
export async function keepComing(options: ReturnOptions): Promise<TabOutcome> {
  const { enter, door, clock, random, onpause, signal } = options;
  let pauseMs = FIRST_PAUSE_MS;
  const rest = async (error: unknown): Promise<void> => {
    signal.throwIfAborted();
    const ms = pauseMs * (0.5 + random());
    pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    onpause(messageOf(error), ms);
    await sleep(clock, ms, signal);
  };
  const knock = async (): Promise<Stay> => {
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
    const stay = await door.pass(knock);
    const enteredAt = clock.now();
    try {
      return await stay.over;
    } catch (error) {
      await stay.close();
      // What goes on for a while and is lost then is another trouble than the last.
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
