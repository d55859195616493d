/**
 * The deadline of an op or message. It passes when the op has made no progress for its timeout.
 * Before the op fails, the group's creator is asked what the ranks do that the op waits for.
 */
import type { Clock } from '../../util/clock.ts';
import { within } from '../../util/deadline.ts';
import { TimeoutError } from '../../util/errors.ts';
import type { ProcessGroupOptions } from '../options.ts';
import type { Progress } from './progress.ts';

/** Maximum time to wait for the answer of {@link ProcessGroupOptions.activityOf}. */
const ACTIVITY_MS = 5000;

const noAnswer = (): Error => new TimeoutError('The question about the ranks was not answered.');

interface Environment extends Pick<ProcessGroupOptions, 'activityOf'> {
  clock: Clock;
  timeoutMs: number;
  progress: Progress;
  /** Returns the global ranks that the op waits for. */
  awaited: () => readonly number[];
  /** Returns when the op last progressed; at the earliest the time of its call. */
  progressAt: () => number;
  /** Called when the op has made no progress for its timeout. */
  onexpire: () => void;
}

export class OpDeadline {
  readonly #env: Environment;
  #cancelTimer!: () => void;
  #isCancelled = false;

  constructor(env: Environment) {
    this.#env = env;
    env.progress.waits.add(env.awaited);
    this.extend(env.timeoutMs);
  }

  /** Milliseconds since the op last progressed. */
  get idleMs(): number {
    const { clock, progressAt } = this.#env;
    return clock.now() - progressAt();
  }

  /** Starts another wait of `ms` milliseconds. */
  extend(ms: number): void {
    const { clock, timeoutMs, onexpire } = this.#env;
    this.#cancelTimer = clock.after(ms, () => {
      const left = timeoutMs - this.idleMs;
      if (left > 0) this.extend(Math.ceil(left));
      else onexpire();
    });
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#env.progress.waits.delete(this.#env.awaited);
    this.#cancelTimer();
  }

  /**
   * Starts the timeout again if the ranks work. Otherwise calls `fail` with sentences about what
   * they do. Calls neither after {@link cancel}.
   *
   * @param ranks the global ranks that the op waits for.
   */
  extendOrFail(ranks: readonly number[], fail: (activity: string) => void, onextend: () => void = () => {}): void {
    const { clock, timeoutMs, activityOf } = this.#env;
    if (!activityOf || ranks.length === 0) return fail('');
    void within(clock, ACTIVITY_MS, activityOf(ranks), noAnswer)
      .catch(() => ({ areWorking: false, text: '' }))
      .then(({ areWorking, text }) => {
        if (this.#isCancelled) return;
        if (!areWorking) return fail(text);
        this.extend(timeoutMs);
        onextend();
      });
  }
}
