/**
 * The executor runs one group's collectives over the mesh. It numbers them, passes received frames
 * to them, watches their deadlines, checks that all ranks called the same collective, and fails all
 * collectives together.
 *
 * A rank launches ops in the order of the calls, which is the same on all ranks. When a rank
 * launches an op, it sends READY (`inFlightOp.ts`) to each rank that will send it more than the
 * eager bytes. In a reduce, it sends this READY only when the turn of that rank comes. Because all
 * ranks launch in the same order, flow control cannot deadlock. Before READY, a sender sends only a
 * limited number of bytes, so a fast rank cannot fill the memory of a slow rank. A collective ends
 * on a rank only once all ranks are known to have called the same collective
 * (`diagnostics/agreement.ts`). A failed collective fails its group on every rank, as in NCCL,
 * because ranks may disagree about what comes next. Before a rank fails the group because of a
 * deadline or a mismatch, it asks all others what they have called
 * (`diagnostics/hangDiagnostics.ts`), so that the error names the missing ranks.
 */
import * as v from 'valibot';
import { FrameKind, OpCode, type FrameHeader } from '../protocol/frame.ts';
import type { FlightRecord } from '../protocol/flightRecording.ts';
import type { Clock } from '../util/clock.ts';
import { createDebugLog } from '../util/debugLog.ts';
import { ProtocolError, errorReasonOf, type ErrorContext } from '../util/errors.ts';
import { peerAbortError, localOpError, linkLostError, mismatchError } from './diagnostics/collectiveErrors.ts';
import { describeOpCall } from './diagnostics/descriptor.ts';
import type { HangReport } from './diagnostics/diagnosis.ts';
import { HangDiagnostics, type HangReports } from './diagnostics/hangDiagnostics.ts';
import { MonitoredBarrier } from './diagnostics/monitoredBarrier.ts';
import { judgeExpiredDeadline } from './diagnostics/deadlineVerdict.ts';
import { createAbortMessage, GroupMessage } from './groupMessages.ts';
import { InFlightOp, type OpDescription, type GroupOpExecutor } from './inFlightOp.ts';
import type { Mesh, MeshListener } from './mesh.ts';
import type { ProcessGroupOptions } from './options.ts';
import { PointToPoint } from './pointToPoint.ts';
import { UnexpectedMessageQueue } from './unexpectedMessages.ts';
import { Work } from './work.ts';

/**
 * While this many launched ops have not ended, further ops wait in a queue on this rank. Ops with
 * reserved numbers do not wait. This number and MAX_BYTES_BEFORE_READY limit the bytes that a rank
 * sends before the receiver has called the ops.
 */
const MAX_OPS_IN_FLIGHT = 64;
/**
 * Maximum time to wait for the other ranks' reports after a timeout or mismatch. After a timeout,
 * it is also at most half of the op's own timeout.
 */
const INQUIRY_MS = 1000;

const log = createDebugLog('collectives');

interface ExecutorOptions extends Pick<ProcessGroupOptions, 'activityOf'> {
  mesh: Mesh;
  /** Global ranks of the group, by rank in the group. */
  ranks: readonly number[];
  segmentElements: number;
  clock: Clock;
  onfailure: (error: Error) => void;
}

export class CollectiveExecutor implements GroupOpExecutor {
  readonly options: ExecutorOptions;
  /** Number of the group on the mesh. */
  readonly id: number;
  /** Rank in the group; -1 if this rank is not a member. */
  readonly rank: number;
  readonly messages: PointToPoint;
  readonly barrier: MonitoredBarrier;
  readonly #diagnostics: HangDiagnostics;
  readonly #inFlightOps = new Map<number, InFlightOp>();
  readonly #unexpected: UnexpectedMessageQueue;
  /** Number of the next collective. Numbers are in the order of the calls, equal on all ranks. */
  #nextSeq = 0;
  /** Numbers of ops that will be issued as soon as their sizes are known. */
  readonly #reserved = new Set<number>();
  /** The reserved number of the op that is being issued. */
  #current: number | null = null;
  #launched = 0;
  #bytesSent = 0;
  readonly #bytesSentBy = new Map<string, number>();
  #bytesReceived = 0;
  readonly #heard = new Map<number, number>();
  /** Returns the time at which the latest frame of a rank (global) arrived in this group. */
  readonly #heardAt = (rank: number): number => this.#heard.get(rank) ?? -Infinity;
  #failure: Error | null = null;
  /** Record of the latest collective. */
  #lastRecord: FlightRecord | null = null;

  constructor(options: ExecutorOptions) {
    this.options = options;
    const { mesh, ranks } = options;
    this.rank = ranks.indexOf(mesh.rank);
    const listener: MeshListener = {
      onframe: (header, frame, from) => this.#receive(header, frame, ranks.indexOf(from)),
      onmessage: (body, from) => this.#onMessage(v.parse(GroupMessage, body), from),
      onlost: (peer, error) => this.#onLinkLost(peer, error),
      onbroken: (peer, error) => {
        if (ranks.includes(peer)) this.fail(error);
      },
      onend: (error) => this.fail(error, { notify: false }),
    };
    this.id = mesh.register(listener, ranks);
    this.#unexpected = new UnexpectedMessageQueue(mesh.unexpectedCollectives, ranks);
    const environment = {
      ...options,
      group: this.id,
      rank: this.rank,
      fail: (error: Error) => this.fail(error),
      failure: () => this.#failure,
      context: () => this.#context,
      progress: mesh.progress,
    };
    this.messages = new PointToPoint({
      ...environment,
      generation: mesh.generation,
      recorder: mesh.recorder,
      heardAt: this.#heardAt,
      unexpectedLimit: mesh.unexpectedMessages,
      transmit: (to, frame, count) => this.transmit(to, frame, count),
      crash: (call, error) => this.crash(call, error),
    });
    this.barrier = new MonitoredBarrier({
      ...environment,
      send: (type, barrier) => this.#flood({ type, barrier }),
    });
    this.#diagnostics = new HangDiagnostics({
      ...options,
      self: mesh.rank,
      reportOn: (seq, waitedMs) => this.#reportOn(seq, waitedMs),
      send: (message) => this.#flood(message),
    });
    // Every rank registers the group, so that groups have the same numbers everywhere. Only members
    // receive frames of the group.
    if (this.rank < 0) mesh.unregister(this.id);
    else mesh.listen();
    log(() => `${this.#name} begins with ranks ${ranks.join(', ')}.`);
  }

  get bytesSent(): number {
    return this.#bytesSent;
  }

  /** Bytes of frames that this rank sent in collectives that have ended, by algorithm. */
  get bytesSentBy(): ReadonlyMap<string, number> {
    return this.#bytesSentBy;
  }

  get bytesReceived(): number {
    return this.#bytesReceived;
  }

  /** The error that ended the group; `null` while the group is alive. */
  get failure(): Error | null {
    return this.#failure;
  }

  /** Context of the errors that this rank detects. */
  get #context(): ErrorContext {
    const { rank, worldSize, generation } = this.options.mesh;
    return { rank, worldSize, generation };
  }

  /** This rank and group, for the debug log. */
  get #name(): string {
    const { rank, generation } = this.options.mesh;
    return `Rank ${rank}, generation ${generation}, group ${this.id}`;
  }

  /**
   * Reserves the next number for an op whose size is not known yet, so that numbers keep the order
   * of the calls.
   *
   * @returns a function that issues the op under that number.
   */
  reserve(): <T>(issue: () => T) => T {
    const seq = this.#nextSeq++;
    this.#reserved.add(seq);
    return (issue) => {
      this.#current = seq;
      try {
        return issue();
      } finally {
        this.#current = null;
      }
    };
  }

  issue<T>(issue: OpDescription<T>): Work<T> {
    const { mesh, clock } = this.options;
    const isReserved = this.#current !== null;
    const seq = this.#current ?? this.#nextSeq++;
    this.#reserved.delete(seq);
    this.#current = null;
    const call = describeOpCall(issue.descriptor, (rank) => this.#global(rank), issue.amount);
    const work = new Work<T>(`${call} #${seq} of rank ${mesh.rank}`, clock);
    if (this.#failure) {
      work.fail(this.#failure);
      return work;
    }
    const op = new InFlightOp(issue, seq, call, work as Work<unknown>, this);
    this.#lastRecord = op.record;
    this.#inFlightOps.set(seq, op);
    log(() => `${this.#name}: #${seq} ${call} is issued.`);
    // An op with a reserved number is launched immediately, even if many ops are in flight. The ops
    // in flight may be later calls, which other ranks may make only after this op has ended.
    if (isReserved) this.#launch(op);
    else this.#launchNext();
    if (issue.after) void this.#awaitInput(op, issue.after);
    this.#diagnostics.called(seq);
    return work;
  }

  /**
   * Fails the group: rejects every op in flight here and sends the error to all other ranks.
   *
   * @param options.notify whether to send the error.
   */
  fail(error: Error, { notify = true } = {}): void {
    if (this.#failure) return;
    this.#failure = error;
    log(() => `${this.#name} ends with ${this.#inFlightOps.size} ops in flight: ${error.message}`);
    const { mesh } = this.options;
    if (notify) mesh.flood(this.id, createAbortMessage(error));
    mesh.unregister(this.id);
    this.#diagnostics.drop();
    for (const op of this.#inFlightOps.values()) op.fail(error);
    this.#inFlightOps.clear();
    this.#unexpected.clear();
    this.messages.fail(error);
    this.barrier.fail(error);
    this.options.onfailure(error);
  }

  #receive(header: FrameHeader, frame: ArrayBuffer, from: number): void {
    if (from < 0)
      throw new ProtocolError(`A rank that is not a member sent frames of group ${this.id}.`, this.#context);
    this.#heard.set(this.#global(from), this.options.clock.now());
    if (header.op === OpCode.SEND) {
      this.#bytesReceived += frame.byteLength;
      return this.messages.receive(header, frame, from);
    }
    const op = this.#inFlightOps.get(header.seq);
    if (op?.isLaunched) return this.#deliver(op, header, frame, from);
    if (this.#isOver(header.seq)) {
      // READY and CALL frames may arrive after the end of their collective. DATA frames may not.
      if (header.kind !== FrameKind.DATA) return;
      throw new ProtocolError(
        `Rank ${this.#global(from)} sent data of collective #${header.seq} after the collective had ended.`,
        this.#context,
      );
    }
    this.#unexpected.add(header, frame, from);
  }

  #deliver(op: InFlightOp, header: FrameHeader, frame: ArrayBuffer, from: number): void {
    // The bytes of an unexpected frame are counted when its op is called, not when the frame
    // arrives.
    this.#bytesReceived += frame.byteLength;
    // In the loop of #launch, an earlier frame may have failed the group.
    if (this.#failure) return;
    const { seq, call } = op;
    if (!op.matches(header, from)) return this.#mismatch(seq);
    try {
      op.receive(header, frame, from);
    } catch (error) {
      if (header.kind !== FrameKind.DATA) throw error;
      if (!(error instanceof ProtocolError)) return this.crash(call, error, seq);
      throw new ProtocolError(
        `Rank ${this.#global(from)} sent invalid data of collective #${seq} ${call}: ${errorReasonOf(error)}.`,
        { ...this.#context, op: call, seq },
      );
    }
    op.announceCalls();
    this.settle(op);
  }

  async #awaitInput(op: InFlightOp, input: PromiseLike<unknown>): Promise<void> {
    try {
      await input;
      op.hasInput = true;
      this.#launchNext();
    } catch (error) {
      this.crash(op.call, error, op.seq);
    }
  }

  #launchNext(): void {
    for (const op of this.#inFlightOps.values()) {
      if (this.#launched >= MAX_OPS_IN_FLIGHT) return;
      if (op.isLaunched) continue;
      // Later ops wait too, so that every rank launches ops in the order of the calls.
      if (!op.hasInput) return;
      this.#launch(op);
    }
  }

  #launch(op: InFlightOp): void {
    this.#launched += 1;
    try {
      op.launch();
      for (const { header, frame, from } of this.#unexpected.take(op.seq)) this.#deliver(op, header, frame, from);
      if (!this.#failure) op.start();
    } catch (error) {
      if (error instanceof ProtocolError) this.fail(error);
      else this.crash(op.call, error, op.seq);
    }
  }

  settle(op: InFlightOp): void {
    const { seq } = op;
    if (!op.isSettled || !this.#inFlightOps.has(seq)) return;
    try {
      op.complete();
    } catch (error) {
      // For example, there may not be enough memory for the result.
      return this.crash(op.call, error, seq);
    }
    const { algorithm, bytesSent, scheduledAt, endedAt } = op.record;
    log(() => {
      const ms = (endedAt! - scheduledAt).toFixed(1);
      return `${this.#name}: #${seq} ${op.call} is done after ${ms} ms; ${bytesSent} bytes sent (${algorithm}).`;
    });
    this.#bytesSentBy.set(algorithm, (this.#bytesSentBy.get(algorithm) ?? 0) + bytesSent);
    this.#inFlightOps.delete(seq);
    this.#launched -= 1;
    this.#diagnostics.ended(seq);
    this.#launchNext();
  }

  /**
   * Sends a frame. Rejects once the group has failed, because receivers have left the group and
   * senders must stop.
   */
  transmit(to: number, frame: ArrayBuffer, count?: (bytes: number) => void): Promise<void> {
    if (this.#failure) return Promise.reject(this.#failure);
    this.#bytesSent += frame.byteLength;
    count?.(frame.byteLength);
    return this.options.mesh.send(this.#global(to), frame);
  }

  #global(rank: number): number {
    return this.options.ranks[rank]!;
  }

  #onLinkLost(peer: number, error: Error | null): void {
    if (!this.options.ranks.includes(peer)) return;
    const [oldest] = this.#inFlightOps.values();
    this.fail(linkLostError(this.#context, peer, oldest ?? null, error));
  }

  #flood(message: GroupMessage): void {
    if (!this.#failure) this.options.mesh.flood(this.id, message);
  }

  crash(call: string, error: unknown, seq?: number): void {
    if (!this.#failure) this.fail(localOpError(this.#context, call, error, seq));
  }

  #onMessage(message: GroupMessage, from: number): void {
    switch (message.type) {
      case 'abort':
        return this.fail(
          peerAbortError(this.#context, message, from, (seq) => this.#diagnostics.reportsOf(seq)),
          { notify: false },
        );
      case 'inquiry':
        return this.#diagnostics.answer(message);
      case 'report':
        return this.#diagnostics.receive(message.seq, message.report, from);
      case 'arrived':
      case 'passed':
        return this.barrier.receive(message.type, message.barrier, from);
      default:
        message satisfies never;
    }
  }

  #reportOn(seq: number, waitedMs: number): HangReport {
    const { mesh, clock } = this.options;
    const record = this.#inFlightOps.get(seq)?.record ?? mesh.recorder.find(this.id, seq);
    const last = this.#lastRecord;
    const now = clock.now();
    return {
      call: record?.call ?? null,
      state: record?.state ?? (this.#isOver(seq) ? 'completed' : null),
      last: last ? { seq: last.seq!, call: last.call, state: last.state } : null,
      idleMs: now - mesh.progress.since(record?.scheduledAt ?? now - waitedMs),
    };
  }

  /** Whether the collective has ended on this rank. */
  #isOver(seq: number): boolean {
    return seq < this.#nextSeq && !this.#reserved.has(seq) && !this.#inFlightOps.has(seq);
  }

  #mismatch(seq: number): void {
    this.#diagnostics.ask({
      seq,
      isForDeadline: false,
      waitedMs: 0,
      waitMs: INQUIRY_MS,
      conclude: (reports) => this.fail(mismatchError(this.#context, seq, reports)),
    });
  }

  expire(op: InFlightOp): void {
    const { mesh, clock } = this.options;
    const { seq, timeoutMs, record } = op;
    const waitMs = Math.min(INQUIRY_MS, timeoutMs / 2);
    const judge = {
      clock,
      self: mesh.rank,
      context: this.#context,
      heardAt: this.#heardAt,
      fail: (error: Error) => this.fail(error),
      onextend: () => this.#diagnostics.ended(seq),
    };
    const conclude = (reports: HangReports): void => {
      log(() => `${this.#name}: ranks report on #${seq}: ${JSON.stringify(Object.fromEntries(reports))}.`);
      judgeExpiredDeadline(op, reports, waitMs, judge);
    };
    const waitedMs = clock.now() - record.scheduledAt;
    log(() => {
      const waited = `issued ${Math.round(waitedMs)} ms ago`;
      return `${this.#name}: #${seq} ${op.call}, ${waited}, makes no progress; it waits for ranks ${op.awaited.join(', ')}.`;
    });
    this.#diagnostics.ask({ seq, isForDeadline: true, waitedMs, waitMs, conclude });
  }
}
