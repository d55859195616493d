/**
 * What this thread computes or loads at the moment, for its pulse (docs/adr/0027). A rank whose
 * thread does not answer is not dead while it is in a task that may take this long.
 */
import type { Clock } from './clock.ts';

/** A task that has never been completed may take this many milliseconds, as torch's operations. */
export const FIRST_LIMIT_MS = 600_000;
/** A task may take this many times as long as it took at most so far. */
const PACES = 8;
/** A task may always take this many milliseconds. */
export const LEAST_LIMIT_MS = 60_000;
/** Progress within a task is reported at most this often, in milliseconds. */
const REPORT_MS = 1_000;

/** The longest name of a task. */
export const MAX_TASK_LENGTH = 80;
/** No task may take longer without progress, whatever a tab says. */
export const MAX_LIMIT_MS = 24 * 3_600_000;

export interface ActivityReport {
  /** The task in progress, such as `step 12`; empty: none is named. */
  readonly task: string;
  /** Number that grows with each bit of progress. */
  readonly progress: number;
  /** Milliseconds since the task began, or since its latest progress. */
  readonly ms: number;
  /** Milliseconds that the task may take without progress. */
  readonly limitMs: number;
}

interface Current {
  readonly task: string;
  readonly kind: string;
  /** When it began, or made progress. */
  since: number;
  /** The longest time without progress in this task. */
  longest: number;
}

export class Activity {
  /** Called when a task begins or ends, and with its progress. */
  readonly listeners = new Set<(report: ActivityReport) => void>();
  readonly #clock: Clock;
  /** Tasks in progress. The latest is reported. */
  readonly #current: Current[] = [];
  /** The longest time without progress of each kind of task that was completed. */
  readonly #longest = new Map<string, number>();
  #progress = 0;
  #reportedAt = -Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Does `work` as the task `task`. Tasks whose names differ only in a number at their end, such as
   * `step 12`, have one pace. Call it around work that computes or loads, not around waits for
   * other ranks.
   */
  async during<T>(task: string, work: () => T | Promise<T>): Promise<T> {
    const current = { task, kind: task.replace(/ \d+$/, ''), since: this.#clock.now(), longest: 0 };
    this.#current.push(current);
    this.#report();
    try {
      const result = await work();
      this.#rest(current);
      this.#longest.set(current.kind, Math.max(current.longest, this.#longest.get(current.kind) ?? 0));
      return result;
    } finally {
      this.#current.splice(this.#current.indexOf(current), 1);
      this.#report();
    }
  }

  /** Reports progress: `amount` more pictures, bytes or batches, whatever the task counts. */
  advance(amount = 1): void {
    this.#progress += amount;
    for (const current of this.#current) this.#rest(current);
    if (this.#clock.now() - this.#reportedAt >= REPORT_MS) this.#report();
  }

  get report(): ActivityReport {
    const current = this.#current.at(-1);
    // Work without a name, between tasks, has the pace of the longest of them.
    const paces = [...this.#longest.values()];
    const longest = current ? this.#longest.get(current.kind) : paces.length > 0 ? Math.max(...paces) : undefined;
    return {
      task: current?.task ?? '',
      progress: this.#progress,
      ms: current ? this.#clock.now() - current.since : 0,
      limitMs: longest === undefined ? FIRST_LIMIT_MS : Math.max(LEAST_LIMIT_MS, PACES * longest),
    };
  }

  /** Ends the time without progress. */
  #rest(current: Current): void {
    const now = this.#clock.now();
    current.longest = Math.max(current.longest, now - current.since);
    current.since = now;
  }

  #report(): void {
    this.#reportedAt = this.#clock.now();
    for (const listener of this.listeners) listener(this.report);
  }
}

/** What a member's heartbeat says about its computing thread. `protocol/room.ts` has its schema. */
export interface Pulse {
  task: string;
  progress: number;
  isSilent: boolean;
  ms: number;
  limitMs: number;
}

/** The pulse of a rank whose thread answers. */
export function pulseOf({ task, progress, ms, limitMs }: ActivityReport): Pulse {
  return {
    task: task.slice(0, MAX_TASK_LENGTH),
    progress: Math.round(progress),
    isSilent: false,
    ms: Math.round(ms),
    limitMs: Math.min(MAX_LIMIT_MS, Math.round(limitMs)),
  };
}

/**
 * `works`: the rank computes or loads within its time. `hangs`: its thread has not answered for
 * longer. `idle`: its thread answers, and is in no task, or in one that takes longer than it may.
 */
export function verdictOn({ task, isSilent, ms, limitMs }: Pulse): 'works' | 'hangs' | 'idle' {
  const isWithin = ms <= limitMs;
  if (isSilent) return isWithin ? 'works' : 'hangs';
  return isWithin && task !== '' ? 'works' : 'idle';
}

export function isWorking(pulse: Pulse): boolean {
  return verdictOn(pulse) === 'works';
}
