/** Handles a collective from its call to its end: its data, its flow control and its agreement. */
import { createFrame, emptyHeader, FrameKind, OpCode, type FrameHeader } from '../protocol/frame.ts';
import type { FlightRecord } from '../protocol/flightRecording.ts';
import type { FlightRecorder } from '../telemetry/flightRecorder.ts';
import type { Clock } from '../util/clock.ts';
import type { Encoding } from './codecs.ts';
import { createAgreement, type Agreement } from './diagnostics/agreement.ts';
import { algorithmName, isSameOp, opName, type OpDescriptor } from './diagnostics/descriptor.ts';
import { OpDeadline } from './diagnostics/opDeadline.ts';
import type { Progress } from './diagnostics/progress.ts';
import { maxSegment, type Dtype, type TypedArray } from './dtypes.ts';
import type { ProcessGroupOptions } from './options.ts';
import { PlanOp } from './planOp.ts';
import type { Planner } from './plans/plans.ts';
import { EAGER_BYTES, SendWindows } from './sendWindow.ts';
import type { OpTrace, Work } from './work.ts';

/** The description of a collective that the process group issues. */
export interface Issue<T> {
  descriptor: OpDescriptor;
  dtype: Dtype;
  plan: Planner;
  source: TypedArray;
  target: TypedArray;
  encoding?: Encoding;
  /** Text for the descriptor's count in error messages. */
  amount?: string | undefined;
  timeoutMs: number;
  /** See {@link OpOptions.after}. */
  after?: PromiseLike<unknown> | undefined;
  /** Writes the op's input to its arrays. Called when the op is launched. */
  before?: (() => void) | undefined;
  /** Creates the result when the op is done. */
  result: () => T;
  /** Creates the trace of the work when the op is done. */
  trace?: (op: PlanOp, startedAt: number) => OpTrace;
}

interface Environment extends Pick<ProcessGroupOptions, 'activityOf'> {
  /** Text of the call for error messages. */
  call: string;
  /** The caller's handle. `complete` creates the result and resolves the handle with it. */
  work: Pick<Work<unknown>, 'sent' | 'fail'>;
  complete: (trace: OpTrace | null) => void;
  group: number;
  /** Rank in the group. */
  rank: number;
  /** Global ranks of the group. */
  ranks: readonly number[];
  generation: number;
  segmentElements: number;
  recorder: FlightRecorder;
  clock: Clock;
  progress: Progress;
  transmit: (to: number, frame: ArrayBuffer, count: (bytes: number) => void) => Promise<void>;
  /** Called when the op cannot continue and no other rank is the cause. */
  crash: (error: unknown) => void;
  /** Called when all data of the op is sent and received. */
  onthrough: () => void;
  onexpire: () => void;
}

export class InFlightOp {
  readonly seq: number;
  readonly call: string;
  readonly timeoutMs: number;
  readonly deadline: OpDeadline;
  readonly data: PlanOp;
  readonly windows: SendWindows;
  readonly record: FlightRecord;
  isLaunched = false;
  /** When data of the op arrived or left last; `null` if none has. */
  movedAt: number | null = null;
  /** Whether the caller's tensor has its values. */
  hasInput: boolean;
  readonly #env: Environment;
  readonly #agreement: Agreement;
  readonly #before: (() => void) | undefined;
  readonly #finish: () => void;
  #isThrough = false;

  /** @throws UsageError if the dtype does not support the reduction. */
  constructor(issue: Issue<unknown>, seq: number, env: Environment) {
    const { descriptor, dtype, plan, source, target, encoding = null, timeoutMs } = issue;
    const { call, group, rank, ranks, generation, segmentElements, recorder, clock, progress } = env;
    this.#env = env;
    this.seq = seq;
    this.timeoutMs = timeoutMs;
    this.hasInput = issue.after === undefined;
    this.#before = issue.before;
    this.data = new PlanOp({
      descriptor,
      dtype,
      plan: plan(rank),
      source,
      target,
      encoding,
      header: { ...emptyHeader(FrameKind.DATA, generation), ...descriptor, group, seq },
      worldSize: ranks.length,
      segmentElements: Math.min(segmentElements, encoding?.codec.maxSegment ?? maxSegment(dtype)),
      emit: (peer, frame) =>
        this.windows.send(peer, frame.byteLength, () => env.transmit(peer, frame, this.#countSent)),
      onfailure: (error) => env.crash(error),
      onmoved: () => {
        this.movedAt = clock.now();
        progress.moved(this.record.scheduledAt, this.movedAt);
      },
      ondone: () => {
        this.#isThrough = true;
        env.onthrough();
      },
      onturn: (peer) => {
        if (takesTurns(descriptor)) this.#makeReady(peer);
      },
      now: () => clock.now(),
    });
    this.windows = new SendWindows(this.data);
    this.#agreement = createAgreement(descriptor, rank, ranks.length);
    this.call = call;
    const scheduledAt = clock.now();
    this.record = recorder.add(
      {
        group,
        kind: 'collective',
        seq,
        op: opName(descriptor.op),
        dtype: dtype.name,
        algorithm: algorithmName(descriptor.algorithm),
        count: descriptor.count,
        call,
      },
      scheduledAt,
    );
    this.#finish = () => env.complete(issue.trace?.(this.data, scheduledAt) ?? null);
    const { activityOf, onexpire } = env;
    const progressAt = (): number => progress.since(scheduledAt);
    this.deadline = new OpDeadline({
      clock,
      timeoutMs,
      progress,
      awaited: () => this.awaited,
      progressAt,
      activityOf,
      onexpire,
    });
  }

  /** Whether all data of the op is sent and received, and all ranks are known to have called it. */
  get isSettled(): boolean {
    return this.#isThrough && this.#agreement.isReached;
  }

  /** The global ranks whose data or READY the op waits for. */
  get awaited(): number[] {
    if (!this.hasInput) return [];
    return [...new Set([...this.data.missing, ...this.data.stalled])].map((peer) => this.#env.ranks[peer]!);
  }

  /** Writes the input, allows other ranks to send, and announces the call to them. */
  launch(): void {
    this.isLaunched = true;
    this.#before?.();
    this.record.state = 'started';
    this.record.startedAt = this.#env.clock.now();
    if (!takesTurns(this.data.descriptor)) for (const peer of this.data.peers) this.#makeReady(peer);
    this.announceCalls();
  }

  /** Whether a frame belongs to the op and matches this rank's call. */
  matches(header: FrameHeader, from: number): boolean {
    return isSameOp(header, this.data.descriptor) && this.data.expects(header, from);
  }

  /** @throws ProtocolError if a DATA frame does not belong to the op's plan. */
  receive(header: FrameHeader, frame: ArrayBuffer, from: number): void {
    if (header.kind === FrameKind.CALL) this.#agreement.receive(header.step, from);
    else if (header.kind === FrameKind.READY) this.windows.open(from);
    else if (header.kind === FrameKind.DATA) this.data.receive(header, frame, from);
  }

  /** Tells other ranks which ranks, including this one, are known to have called the op. */
  announceCalls(): void {
    // In an all-to-all, this rank sends no CALL frames before the first data of every other rank
    // has arrived. The data shows that the other rank sends as much as this rank expects.
    if (!this.data.isAgreed) return;
    for (const { to, step } of this.#agreement.takeCalls()) this.#announce(FrameKind.CALL, to, step);
  }

  /** Resolves the work. @throws if its result cannot be created. */
  complete(): void {
    this.#finish();
    this.#end('completed');
  }

  /** Rejects the work. */
  fail(error: Error): void {
    this.#end('failed');
    this.#env.work.fail(error);
  }

  #end(state: 'completed' | 'failed'): void {
    this.deadline.cancel();
    this.record.state = state;
    this.record.endedAt = this.#env.clock.now();
  }

  /** Allows a rank to send more than the eager bytes. */
  #makeReady(peer: number): void {
    if (this.data.bytes('receive', peer) > EAGER_BYTES) this.#announce(FrameKind.READY, peer);
  }

  #announce(kind: FrameKind, to: number, step = 0): void {
    const { group, generation, transmit, crash } = this.#env;
    const header = { ...emptyHeader(kind, generation), ...this.data.descriptor, group, seq: this.seq, step };
    const sent = transmit(to, createFrame(header, 0), this.#countSent);
    sent.catch((error: unknown) => crash(error));
  }

  readonly #countSent = (bytes: number): void => {
    this.#env.work.sent(bytes);
    this.record.bytesSent += bytes;
  };
}

/**
 * Whether an op combines whole tensors of several ranks one after the other. In such an op, a rank
 * may send more than its eager bytes only when its turn comes. Otherwise tensors that wait for
 * their turn would fill the receiver's memory.
 */
function takesTurns({ op }: OpDescriptor): boolean {
  return op === OpCode.REDUCE;
}
