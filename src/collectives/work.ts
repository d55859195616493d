/**
 * The handle of a collective in flight, like torch.distributed's `Work`. The caller's AbortSignal
 * can end the collective. An aborted op fails its group on every rank like any failed op, because
 * the other ranks have called the op and would wait for this rank.
 */
import type { HopEvent } from '../protocol/stepTrace.ts';
import type { AllReduceName } from '../spec/algorithms.ts';
import type { Clock } from '../util/clock.ts';
import { withinDeadline } from '../util/deadline.ts';
import { createDeferred } from '../util/deferred.ts';
import { AbortError, errorReasonOf, TimeoutError } from '../util/errors.ts';

/** Times of an all-reduce on this rank, in milliseconds of the group's clock. */
export interface AllReduceTrace {
  startedAt: number;
  algorithm: AllReduceName;
  hops: readonly HopEvent[];
}

export class Work<T> implements PromiseLike<T> {
  readonly #result = createDeferred<T>();
  readonly #clock: Clock;
  readonly #name: string;
  #completed = false;
  #trace: AllReduceTrace | null = null;
  #bytesSent = 0;

  /** @param name names the op in error messages, for example `allReduce #12 (25450 float32)`. */
  constructor(name: string, clock: Clock) {
    this.#name = name;
    this.#clock = clock;
    // An op that fails without being awaited must not cause an unhandled rejection. The next op of
    // the group fails with the same error.
    this.#result.promise.catch(() => {});
  }

  /** Whether the op has finished or failed. */
  isCompleted(): boolean {
    return this.#completed;
  }

  /**
   * For a finished all-reduce of several ranks: when this rank sent and received in each step of
   * its plan. Otherwise `null`.
   */
  get trace(): AllReduceTrace | null {
    return this.#trace;
  }

  /** Number of bytes of frames that this rank has sent for the op so far, headers included. */
  get bytesSent(): number {
    return this.#bytesSent;
  }

  /**
   * Resolves with the result. With `timeoutMs`, rejects with TimeoutError if the op takes longer.
   * The op itself continues until its own deadline.
   */
  async wait(timeoutMs?: number): Promise<T> {
    if (timeoutMs === undefined) return this.#result.promise;
    return withinDeadline(
      this.#clock,
      timeoutMs,
      this.#result.promise,
      () => new TimeoutError(`Timed out: ${this.#name} was not done after ${timeoutMs} ms of waiting.`),
    );
  }

  // oxlint-disable-next-line unicorn/no-thenable -- awaiting a Work is its interface
  then<R = T, E = never>(
    onfulfilled?: ((value: T) => R | PromiseLike<R>) | null,
    onrejected?: ((reason: unknown) => E | PromiseLike<E>) | null,
  ): Promise<R | E> {
    return this.#result.promise.then(onfulfilled, onrejected);
  }

  /** Called by the process group when the op is done. */
  complete(value: T, trace: AllReduceTrace | null = null): void {
    this.#completed = true;
    this.#trace = trace;
    this.#result.resolve(value);
  }

  /** Called by the process group when the op failed. */
  fail(error: unknown): void {
    this.#completed = true;
    this.#result.reject(error);
  }

  /** Called by the process group when more bytes are sent. */
  sent(bytes: number): void {
    this.#bytesSent += bytes;
  }
}

/** The group of a call, for {@link issueAbortable}. */
export interface AbortableGroup {
  /** The caller's rank in the world. */
  readonly rank: number;
  readonly clock: Clock;
  /** Fails the group on every rank. */
  readonly fail: (error: Error) => void;
}

/**
 * Issues an op that fails the group when `signal` is aborted. With a signal that is already
 * aborted, nothing is issued, so the group continues.
 *
 * @param call text of the call for error messages.
 */
export function issueAbortable<T>(
  { rank, clock, fail }: AbortableGroup,
  signal: AbortSignal | undefined,
  call: string,
  issue: () => Work<T>,
): Work<T> {
  if (!signal) return issue();
  if (signal.aborted) {
    const work = new Work<T>(call, clock);
    work.fail(notCalledError(signal, rank, call));
    return work;
  }
  const work = issue();
  failGroupOnAbort({ rank, fail }, signal, call, work);
  return work;
}

/** Fails the group if `signal` is aborted before `ended` has settled. */
export function failGroupOnAbort(
  { rank, fail }: Pick<AbortableGroup, 'rank' | 'fail'>,
  signal: AbortSignal,
  call: string,
  ended: PromiseLike<unknown>,
): void {
  const onabort = (): void =>
    fail(
      new AbortError(
        `Aborted: the signal of rank ${rank} ended ${call}: ${errorReasonOf(signal.reason)}. The group has ended on every rank. Create a new group to continue.`,
        { rank, op: call },
      ),
    );
  const remove = (): void => signal.removeEventListener('abort', onabort);
  signal.addEventListener('abort', onabort);
  void ended.then(remove, remove);
}

/** @throws AbortError if the signal is already aborted. */
export function checkSignalNotAborted(signal: AbortSignal | undefined, rank: number, call: string): void {
  if (signal?.aborted) throw notCalledError(signal, rank, call);
}

function notCalledError({ reason }: AbortSignal, rank: number, call: string): AbortError {
  return new AbortError(
    `Aborted: rank ${rank} did not call ${call}, because its signal was already aborted: ${errorReasonOf(reason)}. Other ranks may wait for the call.`,
    { rank, op: call },
  );
}
