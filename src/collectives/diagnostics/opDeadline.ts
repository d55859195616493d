/**
 * The deadline of an op or message. It passes when the op has made no progress for its timeout.
 * Before the op fails, the creator of the group is asked about the activity of the ranks that the
 * op waits for.
 */
import type { Clock } from '../../util/clock.ts';
import { withinDeadline } from '../../util/deadline.ts';
import { TimeoutError } from '../../util/errors.ts';
import type { ProcessGroupOptions } from '../options.ts';

/** Maximum time to wait for the answer of {@link ProcessGroupOptions.activityOf}. */
const ACTIVITY_MS = 5000;

const noAnswer = (): Error => new TimeoutError('The answer about the activity of ranks did not arrive in time.');

interface Environment extends Pick<ProcessGroupOptions, 'activityOf'> {
  clock: Clock;
  timeoutMs: number;
  progress: LinkActivity;
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
   * Starts the timeout again if all the ranks are working. Otherwise calls `fail` with sentences
   * about their activity. After {@link cancel}, does neither.
   *
   * @param ranks the global ranks that the op waits for.
   */
  extendOrFail(ranks: readonly number[], fail: (activity: string) => void, onextend: () => void = () => {}): void {
    const { clock, timeoutMs, activityOf } = this.#env;
    if (!activityOf || ranks.length === 0) return fail('');
    void withinDeadline(clock, ACTIVITY_MS, activityOf(ranks), noAnswer)
      .catch(() => ({ areWorking: false, text: '' }))
      .then(({ areWorking, text }) => {
        if (this.#isCancelled) return;
        if (!areWorking) return fail(text);
        this.extend(timeoutMs);
        onextend();
      });
  }
}

/** Number of entries above which neighbouring entries are merged. */
const MAX_ENTRIES = 512;

interface Entry {
  /** When the op that moved bytes was called. After a merge, the earlier of the two times. */
  readonly calledAt: number;
  movedAt: number;
}

/**
 * Records when bytes moved over this rank's links. Progress of earlier ops of this rank also counts
 * as progress of an op, because they use the same links. Progress of later ops does not count,
 * because ranks that continue without a missing rank would hide that the rank is missing.
 */
export class LinkActivity {
  /** In ascending order of both times. */
  #entries: Entry[] = [];
  /** Functions that return the global ranks for which an op waits, one for each op in flight. */
  readonly waits = new Set<() => readonly number[]>();

  /** Records that bytes of an op arrived or left. */
  moved(calledAt: number, now: number): void {
    const entries = this.#entries;
    while (entries.length > 0 && entries.at(-1)!.calledAt > calledAt) entries.pop();
    const last = entries.at(-1);
    if (last?.calledAt === calledAt) last.movedAt = now;
    else entries.push({ calledAt, movedAt: now });
    // Each pair becomes one entry with the earlier call and the later progress. So the list stays
    // short, and times become less exact.
    if (entries.length > MAX_ENTRIES) {
      this.#entries = entries.flatMap(({ calledAt: since }, i) =>
        i % 2 === 0 ? { calledAt: since, movedAt: (entries[i + 1] ?? entries[i]!).movedAt } : [],
      );
    }
  }

  /** Returns when an op that was called by `calledAt` last moved bytes; at least `calledAt`. */
  since(calledAt: number): number {
    const entry = this.#entries.findLast((some) => some.calledAt <= calledAt);
    return Math.max(calledAt, entry?.movedAt ?? calledAt);
  }
}

/** The bytes of a transfer, for error messages. */
export interface TransferredBytes {
  moved: number;
  total: number;
  startedAt: number | null;
  /** When bytes moved last; `null` if none have. */
  movedAt: number | null;
}

/**
 * Returns text such as `0 of 40 bytes have arrived` or `2048 of 4096 bytes have arrived at 2 kB/s,
 * none in the last 60 s`.
 */
export function describeTransferProgress(
  { moved, total, startedAt, movedAt }: TransferredBytes,
  verb: string,
  now: number,
): string {
  const text = `${moved} of ${total} bytes have ${verb}`;
  if (moved === 0 || movedAt === null || startedAt === null) return text;
  const rate = movedAt > startedAt ? ` at ${Number((moved / (movedAt - startedAt)).toPrecision(2))} kB/s` : '';
  return `${text}${rate}, none in the last ${Math.round((now - movedAt) / 1000)} s`;
}
