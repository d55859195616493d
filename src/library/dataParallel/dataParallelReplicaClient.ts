/**
 * The part of a `DataParallel` that calls one replica and waits for each of its answers, with a
 * deadline.
 */
import type { Clock } from '../../util/clock.ts';
import { withinDeadline } from '../../util/deadline.ts';
import { createDeferred, type Deferred } from '../../util/deferred.ts';
import { DeviceError, PeergradError, TimeoutError, UsageError } from '../../util/errors.ts';
import type { FromReplica, ReplicaCall, ReplicaPort, ReplicaResult, ToReplica } from './messages.ts';

const ERRORS: Record<string, typeof PeergradError> = { DeviceError, UsageError };

export class DataParallelReplicaClient {
  readonly #end: ReplicaPort;
  readonly #replica: number;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #waiting = new Map<number, Deferred<ReplicaResult>>();
  #calls = 0;
  #failure: PeergradError | null = null;

  constructor(end: ReplicaPort, replica: number, clock: Clock, timeoutMs: number) {
    this.#end = end;
    this.#replica = replica;
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    end.addEventListener('message', ({ data }: MessageEvent<FromReplica>) => this.#receive(data));
    (end as Partial<Worker>).addEventListener?.('error', ({ message }: ErrorEvent) =>
      this.#fail(
        message
          ? `stopped (${message}). Create the DataParallel again.`
          : 'stopped, because its worker could not be loaded. Build the page with a bundler: import maps do not apply in workers.',
      ),
    );
    end.start?.();
  }

  /**
   * @throws (rejects) DeviceError, UsageError or PeergradError if the call fails; TimeoutError if
   *   there is no answer in time. The error names the number of the replica.
   */
  call(call: ReplicaCall, transfer: Transferable[] = []): Promise<ReplicaResult> {
    if (this.#failure) return Promise.reject(this.#failure);
    this.#calls += 1;
    const message: ToReplica = { id: this.#calls, ...call };
    const answer = createDeferred<ReplicaResult>();
    this.#waiting.set(message.id, answer);
    this.#end.postMessage(message, transfer);
    return withinDeadline(
      this.#clock,
      this.#timeoutMs,
      answer.promise,
      () =>
        new TimeoutError(
          `Replica ${this.#replica} did not answer "${call.type}" within ${this.#timeoutMs / 1000} s. Pass a longer timeoutMs, ` +
            'or use fewer replicas.',
        ),
    ).finally(() => this.#waiting.delete(message.id));
  }

  close(): void {
    const message: ToReplica = { id: 0, type: 'close' };
    this.#end.postMessage(message);
    this.#end.terminate?.();
    this.#fail('was disposed of. Create a new DataParallel.');
  }

  #receive(reply: FromReplica): void {
    const answer = this.#waiting.get(reply.id);
    if ('result' in reply) answer?.resolve(reply.result);
    else {
      const Failure = ERRORS[reply.error.name] ?? PeergradError;
      answer?.reject(new Failure(`Replica ${this.#replica} failed: ${reply.error.message}`));
    }
  }

  #fail(what: string): void {
    this.#failure = new PeergradError(`Replica ${this.#replica} ${what}`);
    for (const answer of this.#waiting.values()) answer.reject(this.#failure);
  }
}
