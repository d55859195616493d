/**
 * torch.distributed.monitored_barrier: a barrier that names the missing ranks. It uses the flood
 * relay, not a plan, because its messages must reach rank 0 even if some ranks are stuck.
 */
import type { Clock } from '../../util/clock.ts';
import { createDeferred, type Deferred } from '../../util/deferred.ts';
import { TimeoutError, UsageError, type ErrorContext } from '../../util/errors.ts';
import { nameRanks, capitalizeFirst } from '../../util/text.ts';
import type { ProcessGroupOptions } from '../options.ts';
import { OpDeadline, type LinkActivity } from './opDeadline.ts';

export interface MonitoredBarrierOptions {
  timeoutMs: number;
  /** Whether the error names all missing ranks, not only the first. */
  waitAllRanks?: boolean;
}

/**
 * Additional time that ranks other than rank 0 wait after their deadline. In this time rank 0's
 * error, which names the missing ranks, can reach the waiting ranks. The time is at most half of
 * the barrier's deadline. If a rank arrives earlier than rank 0, its whole wait starts again when
 * rank 0 arrives.
 */
const GRACE_MS = 1000;
/**
 * Maximum number of barriers that a rank can wait in at the same time. Rank 0 ignores an arrival at
 * a barrier that is this far, or further, ahead of its own next barrier.
 */
const MAX_UNDER_WAY = 64;

interface Environment extends Pick<ProcessGroupOptions, 'activityOf'> {
  /** Rank in the group. */
  rank: number;
  /** Global ranks of the group. */
  ranks: readonly number[];
  clock: Clock;
  progress: LinkActivity;
  send: (type: 'arrived' | 'passed', barrier: number) => void;
  /** Fails the whole group. */
  fail: (error: Error) => void;
  failure: () => Error | null;
  context: () => ErrorContext;
}

export class MonitoredBarrier {
  readonly #env: Environment;
  /** Global ranks that have arrived, by barrier. */
  readonly #arrived = new Map<number, Set<number>>();
  readonly #passing = new Map<number, { passed: Deferred<void>; restart: () => void }>();
  #next = 0;

  constructor(env: Environment) {
    this.#env = env;
  }

  /**
   * Resolves once all ranks have arrived.
   *
   * @throws (rejects) TimeoutError on every rank if a rank does not arrive by the deadline. The
   * error ends the group. UsageError if this rank already waits in `MAX_UNDER_WAY` barriers.
   */
  async pass({ timeoutMs, waitAllRanks = false }: MonitoredBarrierOptions): Promise<void> {
    const { rank, ranks, clock, activityOf, progress, send, fail, failure, context } = this.#env;
    const before = failure();
    if (before) throw before;
    if (this.#passing.size >= MAX_UNDER_WAY) {
      throw new UsageError(
        `Rank ${ranks[rank]} already waits in ${MAX_UNDER_WAY} monitored barriers. Await one of them before you call the next.`,
      );
    }
    const barrier = this.#next++;
    const passed = createDeferred();
    const missingRanks = (): number[] =>
      rank > 0 ? [ranks[0]!] : ranks.filter((other, i) => i > 0 && !this.#arrived.get(barrier)?.has(other));
    const expire = (activity: string): void => {
      const missing = missingRanks();
      const named = waitAllRanks ? missing : missing.slice(0, 1);
      const who = capitalizeFirst(nameRanks(named));
      const text =
        rank === 0 && timeoutMs > 0
          ? `${who} failed to pass monitoredBarrier in ${timeoutMs} ms.`
          : `Rank ${ranks[rank]} timed out in monitoredBarrier after ${timeoutMs} ms${rank === 0 ? '' : `: rank ${ranks[0]} did not let it pass`}.`;
      fail(new TimeoutError(activity ? `${text} ${activity}` : text, { ...context(), missing }));
    };
    const waitMs = rank === 0 ? timeoutMs : timeoutMs + Math.min(GRACE_MS, timeoutMs / 2);
    const onexpire = (): void => deadline.extendOrFail(missingRanks(), expire);
    const calledAt = clock.now();
    const progressAt = (): number => progress.since(calledAt);
    const begin = (): OpDeadline =>
      new OpDeadline({
        clock,
        timeoutMs: waitMs,
        progress,
        awaited: () => missingRanks(),
        progressAt,
        activityOf,
        onexpire,
      });
    let deadline = begin();
    let isRestarted = false;
    const restart = (): void => {
      // The wait restarts only once, because rank 0 could otherwise make the others wait forever.
      if (isRestarted) return;
      isRestarted = true;
      deadline.cancel();
      deadline = begin();
    };
    this.#passing.set(barrier, { passed, restart });
    try {
      send('arrived', barrier);
      if (rank === 0) this.#check(barrier);
      await passed.promise;
    } finally {
      deadline.cancel();
      this.#passing.delete(barrier);
    }
  }

  /**
   * Receives a message from global rank `from`. Ignores messages that `from` is not allowed to
   * send.
   */
  receive(type: 'arrived' | 'passed', barrier: number, from: number): void {
    const { rank, ranks } = this.#env;
    const passing = this.#passing.get(barrier);
    if (from === ranks[0]) return type === 'passed' ? passing?.passed.resolve() : passing?.restart();
    const isAhead = barrier >= this.#next && barrier < this.#next + MAX_UNDER_WAY;
    if (rank !== 0 || type === 'passed' || !(passing || isAhead)) return;
    const arrived = this.#arrived.get(barrier) ?? new Set();
    this.#arrived.set(barrier, arrived.add(from));
    this.#check(barrier);
  }

  fail(error: Error): void {
    for (const { passed } of this.#passing.values()) passed.reject(error);
  }

  /** On rank 0, releases all ranks, including itself, once all have arrived. */
  #check(barrier: number): void {
    const { ranks, send } = this.#env;
    const passing = this.#passing.get(barrier);
    if (!passing || (this.#arrived.get(barrier)?.size ?? 0) < ranks.length - 1) return;
    this.#arrived.delete(barrier);
    send('passed', barrier);
    passing.passed.resolve();
  }
}
