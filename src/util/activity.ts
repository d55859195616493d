/**
 * Tracks what this thread computes or loads at the moment; the pulse of the rank reports it
 * (docs/adr/0027). A thread that does not answer is not taken for dead before the time limit of its
 * task is over.
 */
import type { Clock } from './clock.ts';

/** The first task of its kind may take this many milliseconds, like an operation of torch. */
export const FIRST_THREAD_TASK_LIMIT_MS = 600_000;
/** A task may take this many times as long as the longest completed task of its kind. */
const PACES = 8;
/** Every task may take at least this many milliseconds. */
export const MIN_THREAD_TASK_LIMIT_MS = 60_000;
/** Progress within a task is reported at most this often, in milliseconds. */
const REPORT_MS = 1_000;

/** Maximum length of a task's name, in characters. */
export const MAX_THREAD_TASK_NAME_LENGTH = 80;
/** A rank reports at most this number of ranks that it waits for. */
export const MAX_AWAITED_RANKS = 8;
/** No task may take longer without progress, even if a tab reports a higher limit. */
export const MAX_THREAD_TASK_LIMIT_MS = 24 * 3_600_000;
/**
 * A message to or from the server may wait until the line has carried this many bytes of the links'
 * data.
 */
export const MAX_LINE_DELAY_BYTES = 1024 * 1024;
/** Such a message never waits longer than this: 1 MiB takes 168 s at 50 kbit/s. */
export const MAX_LINE_DELAY_MS = 180_000;

/** Bytes of this tab's links over the network. */
export interface LinkTraffic {
  /** Bytes that links have accepted, and that have not left this machine. */
  readonly unsent: number;
  readonly sent: number;
  readonly received: number;
}

export const NO_LINK_TRAFFIC: LinkTraffic = { unsent: 0, sent: 0, received: 0 };

export interface ActivityReport {
  /** The task in progress, such as `step 12`; empty if no task with a name is in progress. */
  readonly task: string;
  /** A number that grows whenever the task makes progress. */
  readonly progress: number;
  /** Milliseconds since the task began, or since its latest progress. */
  readonly ms: number;
  /** Milliseconds that the task may take without progress. */
  readonly limitMs: number;
  /** The members whose data this thread waits for. */
  readonly awaits: readonly string[];
  /** Bytes that links have sent and received. */
  readonly bytes: number;
  /** Milliseconds by which the links' data may delay a message to the server. */
  readonly lateMs: number;
}

interface Current {
  readonly task: string;
  readonly kind: string;
  /** See {@link ThreadActivity.during}. */
  readonly amount: number;
  /** When the task began, or last made progress. */
  since: number;
  /** The longest time without progress in this task. */
  longest: number;
}

export class ThreadActivity {
  /** Called when a task begins or ends, and with its progress. */
  readonly listeners = new Set<(report: ActivityReport) => void>();
  /** Returns {@link ActivityReport.awaits}. */
  awaits: () => readonly string[] = () => [];
  /** Returns the bytes of all links so far. */
  traffic: () => LinkTraffic = () => NO_LINK_TRAFFIC;
  readonly #clock: Clock;
  /** Tasks in progress. The latest is reported. */
  readonly #current: Current[] = [];
  /**
   * For each kind of task: the longest time without progress in a completed task, divided by its
   * amount. `#rehearsed` counts tasks within another task, `#paces` all others.
   */
  readonly #rehearsed = new Map<string, number>();
  readonly #paces = new Map<string, number>();
  /** The longest time without progress in any task; `null` before the first is completed. */
  #longest: number | null = null;
  /** When links were last seen to send, and the bytes that they had sent by then. */
  #lastSent = { bytes: 0, at: -Infinity };
  /** The traffic when the line was last measured. */
  #measured: LinkTraffic & { at: number } = { ...NO_LINK_TRAFFIC, at: -Infinity };
  #lateMs = 0;
  #progress = 0;
  #reportedAt = -Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Does `work` as the task `task`. Tasks whose names differ only in a number at their end, such as
   * `step 12`, have one pace. Call it around work that computes or loads, not around waits for
   * other ranks.
   *
   * @param work receives a function that ends the task early. `work` calls it before it waits for
   *   other ranks.
   * @param amount the number of equal parts of the work, for example samples. A task may take
   *   longer than a smaller one of its kind.
   */
  async during<T>(task: string, work: (end: () => void) => T | Promise<T>, amount = 1): Promise<T> {
    const current = { task, kind: task.replace(/ \d+$/, ''), amount, since: this.#clock.now(), longest: 0 };
    // A task within another one, such as the pass of a warm-up, is not a usual task of its kind.
    const paces = this.#current.length > 0 ? this.#rehearsed : this.#paces;
    let isOver = false;
    const end = (isComplete: boolean): void => {
      if (isOver) return;
      isOver = true;
      this.#rest(current);
      if (isComplete) {
        const pace = current.longest / amount;
        paces.set(current.kind, Math.max(pace, paces.get(current.kind) ?? 0));
        this.#longest = Math.max(current.longest, this.#longest ?? 0);
      }
      this.#current.splice(this.#current.indexOf(current), 1);
      this.#report();
    };
    this.#current.push(current);
    this.#report();
    try {
      const result = await work(() => end(true));
      end(true);
      return result;
    } finally {
      end(false);
    }
  }

  /** Reports progress: `amount` more pictures, bytes or batches, whatever the task counts. */
  advance(amount = 1): void {
    this.#progress += amount;
    for (const current of this.#current) this.#rest(current);
    if (this.#clock.now() - this.#reportedAt >= REPORT_MS) this.#report();
  }

  /** Returns a listener for the numbers of bytes that ranks have; a growing sum is progress. */
  countBytes(): (bytesPerRank: readonly number[]) => void {
    let known = 0;
    return (bytesPerRank) => {
      const bytes = bytesPerRank.reduce((sum, each) => sum + each, 0);
      if (bytes > known) this.advance(bytes - known);
      known = bytes;
    };
  }

  get report(): ActivityReport {
    const current = this.#current.at(-1);
    const traffic = this.traffic();
    const sendingMs = this.#sendingMs(traffic);
    this.#measureLine(traffic);
    return {
      task: current?.task ?? (sendingMs === null ? '' : 'send'),
      progress: this.#progress,
      ms: current ? this.#clock.now() - current.since : (sendingMs ?? 0),
      limitMs: this.#limitOf(current),
      awaits: this.awaits(),
      bytes: traffic.sent + traffic.received,
      lateMs: this.#lateMs,
    };
  }

  /**
   * Returns how many milliseconds to wait for the server's answer: `ms`, or more if the links' data
   * may delay the answer for longer.
   */
  answerMs(ms: number): number {
    return Math.max(ms, this.report.lateMs);
  }

  #limitOf(current: Current | undefined): number {
    // Work between tasks has no name. Its limit follows from the longest task.
    if (!current)
      return this.#longest === null
        ? FIRST_THREAD_TASK_LIMIT_MS
        : Math.max(MIN_THREAD_TASK_LIMIT_MS, PACES * this.#longest);
    const { kind, amount } = current;
    const pace = this.#paces.get(kind);
    if (pace !== undefined) return Math.max(MIN_THREAD_TASK_LIMIT_MS, PACES * pace * amount);
    return Math.max(FIRST_THREAD_TASK_LIMIT_MS, PACES * (this.#rehearsed.get(kind) ?? 0) * amount);
  }

  /**
   * Returns how long ago a link last sent bytes. Returns `null` if no bytes wait to be sent, or if
   * they have waited for too long. The limit is long: a link accepts bytes immediately, but a slow
   * line may need minutes to send them.
   */
  #sendingMs({ unsent, sent }: LinkTraffic): number | null {
    const now = this.#clock.now();
    if (sent !== this.#lastSent.bytes) this.#lastSent = { bytes: sent, at: now };
    const ms = now - this.#lastSent.at;
    return unsent > 0 && ms <= MIN_THREAD_TASK_LIMIT_MS ? ms : null;
  }

  /** Measures the line's speed by the bytes that were waiting at the previous measurement. */
  #measureLine(traffic: LinkTraffic): void {
    const { unsent, sent, at } = this.#measured;
    const now = this.#clock.now();
    const ms = now - at;
    if (ms < REPORT_MS) return;
    this.#measured = { ...traffic, at: now };
    const moved = traffic.sent - sent;
    if (unsent === 0 || moved <= 0) return;
    const lateMs = Math.min(MAX_LINE_DELAY_MS, (MAX_LINE_DELAY_BYTES * ms) / Math.min(moved, unsent));
    // If all waiting bytes have left, the time at which they left is unknown, and the line may be
    // faster than measured.
    this.#lateMs = moved < unsent ? lateMs : Math.min(lateMs, this.#lateMs);
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

/** A heartbeat's report about the member's computing thread. `protocol/room.ts` has its schema. */
export interface Pulse {
  task: string;
  progress: number;
  isSilent: boolean;
  ms: number;
  limitMs: number;
  awaits?: string[] | undefined;
  lateMs?: number | undefined;
}

/** The pulse of a rank whose thread answers. */
export function pulseOfActiveRank({ task, progress, ms, limitMs, awaits, lateMs }: ActivityReport): Pulse {
  return {
    task: task.slice(0, MAX_THREAD_TASK_NAME_LENGTH),
    progress: Math.round(progress),
    isSilent: false,
    ms: Math.round(ms),
    limitMs: Math.min(MAX_THREAD_TASK_LIMIT_MS, Math.round(limitMs)),
    ...(awaits.length > 0 && { awaits: awaits.slice(0, MAX_AWAITED_RANKS) }),
    ...(lateMs >= 1 && { lateMs: Math.round(lateMs) }),
  };
}

/**
 * `works`: the rank computes or loads, within the time limit of its task. `hangs`: its thread has
 * not answered for longer than the limit. `idle`: its thread answers, but the rank has no task, or
 * its task takes longer than the limit.
 */
export function pulseVerdict({ task, isSilent, ms, limitMs }: Pulse): 'works' | 'hangs' | 'idle' {
  const isWithin = ms <= limitMs;
  if (isSilent) return isWithin ? 'works' : 'hangs';
  return isWithin && task !== '' ? 'works' : 'idle';
}

export function isPulseWorking(pulse: Pulse): boolean {
  return pulseVerdict(pulse) === 'works';
}

/** Whether a rank does nothing but wait for others. */
export function isPulseWaiting({ isSilent, task, awaits = [] }: Pulse): boolean {
  return !isSilent && task === '' && awaits.length > 0;
}

/**
 * Returns the pulses of members, and of those that they wait for, directly or through others. A
 * member whose thread does not answer waits for nobody.
 */
export function pulsesOfWaitChain(
  members: readonly string[],
  latest: (member: string) => Pulse | null | undefined,
): ReadonlyMap<string, Pulse> {
  const found = new Map<string, Pulse>();
  const rest = [...members];
  for (let member = rest.shift(); member !== undefined; member = rest.shift()) {
    const pulse = found.has(member) ? null : latest(member);
    if (!pulse) continue;
    found.set(member, pulse);
    if (!pulse.isSilent) rest.push(...(pulse.awaits ?? []));
  }
  return found;
}

/** Whether a member works, or waits for one that works, directly or through others. */
export function isWorkingOrAwaitsWork(member: string, latest: (member: string) => Pulse | null | undefined): boolean {
  return [...pulsesOfWaitChain([member], latest).values()].some(isPulseWorking);
}
