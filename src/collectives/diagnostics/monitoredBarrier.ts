/**
 * torch.distributed.monitored_barrier: a barrier that says who is missing. Goes by news, not over a
 * plan: it must reach rank 0 also past ranks that are stuck.
 */
import type { Clock } from '../../util/clock.ts';
import { deferred, type Deferred } from '../../util/deferred.ts';
import { TimeoutError, UsageError, type ErrorContext } from '../../util/errors.ts';

export interface MonitoredBarrierOptions {
  timeoutMs: number;
  /** Name all missing ranks, not the first alone. */
  waitAllRanks?: boolean;
}

/**
 * How much longer the others wait than rank 0, for its word on who is missing; at most half of the
 * barrier's own deadline. They count from when rank 0 came, if that is later.
 */
const GRACE_MS = 1000;
/**
 * Barriers that a rank may have under way: rank 0 keeps nothing of ranks that come to one further
 * ahead.
 */
const MAX_UNDER_WAY = 64;

interface Environment {
  /** In the group. */
  rank: number;
  /** Global ranks of the group. */
  ranks: readonly number[];
  clock: Clock;
  tell: (type: 'arrived' | 'passed', barrier: number) => void;
  /** Gives the whole group up. */
  fail: (error: Error) => void;
  failure: () => Error | null;
  context: () => ErrorContext;
}

export class MonitoredBarrier {
  readonly #env: Environment;
  /** Global ranks that have come, by barrier. */
  readonly #arrived = new Map<number, Set<number>>();
  readonly #passing = new Map<number, { passed: Deferred<void>; restart: () => void }>();
  #next = 0;

  constructor(env: Environment) {
    this.#env = env;
  }

  /**
   * Resolves once all have come. @throws (rejects) TimeoutError on every rank; the group is over
   * then.
   */
  async pass({ timeoutMs, waitAllRanks = false }: MonitoredBarrierOptions): Promise<void> {
    const { rank, ranks, clock, tell, fail, failure, context } = this.#env;
    const before = failure();
    if (before) throw before;
    if (this.#passing.size >= MAX_UNDER_WAY) {
      throw new UsageError(
        `Rank ${ranks[rank]} waits in ${MAX_UNDER_WAY} monitoredBarriers: await one before the next.`,
      );
    }
    const barrier = this.#next++;
    const passed = deferred();
    const expire = (): void => {
      const come = this.#arrived.get(barrier);
      const missing = ranks.filter((other, i) => i > 0 && !come?.has(other));
      const named = waitAllRanks ? missing : missing.slice(0, 1);
      const who = `${named.length === 1 ? 'Rank' : 'Ranks'} ${named.join(', ')}`;
      fail(
        rank === 0 && timeoutMs > 0
          ? new TimeoutError(`${who} failed to pass monitoredBarrier in ${timeoutMs} ms.`, { ...context(), missing })
          : new TimeoutError(
              `Rank ${ranks[rank]} timed out in monitoredBarrier after ${timeoutMs} ms${rank === 0 ? '' : `: rank ${ranks[0]} did not let it pass`}.`,
              { ...context(), missing: rank === 0 ? missing : [ranks[0]!] },
            ),
      );
    };
    const waitMs = rank === 0 ? timeoutMs : timeoutMs + Math.min(GRACE_MS, timeoutMs / 2);
    let cancel = clock.after(waitMs, expire);
    let isRestarted = false;
    const restart = (): void => {
      // Once: otherwise rank 0 could make the others wait without end.
      if (isRestarted) return;
      isRestarted = true;
      cancel();
      cancel = clock.after(waitMs, expire);
    };
    this.#passing.set(barrier, { passed, restart });
    try {
      tell('arrived', barrier);
      if (rank === 0) this.#check(barrier);
      await passed.promise;
    } finally {
      cancel();
      this.#passing.delete(barrier);
    }
  }

  /** News from a rank (global). What the rank cannot mean is ignored. */
  hear(type: 'arrived' | 'passed', barrier: number, from: number): void {
    const { rank, ranks } = this.#env;
    const passing = this.#passing.get(barrier);
    if (from === ranks[0]) return type === 'passed' ? passing?.passed.resolve() : passing?.restart();
    const isAhead = barrier >= this.#next && barrier < this.#next + MAX_UNDER_WAY;
    if (rank !== 0 || type === 'passed' || !(passing || isAhead)) return;
    const come = this.#arrived.get(barrier) ?? new Set();
    this.#arrived.set(barrier, come.add(from));
    this.#check(barrier);
  }

  fail(error: Error): void {
    for (const { passed } of this.#passing.values()) passed.reject(error);
  }

  /** Rank 0: lets all pass if all are there, itself too. */
  #check(barrier: number): void {
    const { ranks, tell } = this.#env;
    const passing = this.#passing.get(barrier);
    if (!passing || (this.#arrived.get(barrier)?.size ?? 0) < ranks.length - 1) return;
    this.#arrived.delete(barrier);
    tell('passed', barrier);
    passing.passed.resolve();
  }
}
