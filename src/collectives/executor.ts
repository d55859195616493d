/**
 * Runs one group's collectives over the mesh: numbers them, routes frames to them, bounds what may
 * be sent ahead, holds their deadlines, checks that all ranks called the same, and fails all of
 * them together.
 *
 * Flow control is MPI's eager and rendezvous: an op's first EAGER_BYTES to a rank may be sent
 * before that rank has issued the op (it parks them); the rest waits for its READY. Readiness
 * depends only on the order ops are issued in, so this cannot deadlock, and a fast rank cannot fill
 * a slow one's memory.
 *
 * Every collective ends on a rank only once all ranks are known to have called the same
 * (`agreement.ts`). A failed one fails its group on every rank, as in NCCL, because ranks can no
 * longer agree on what comes next. Before a rank gives up for a deadline or a mismatch, it asks all
 * others what they have called (`diagnostics.ts`), so that the error names who is missing.
 */
import * as v from 'valibot';
import { createFrame, emptyHeader, FrameKind, OpCode, type FrameHeader } from '../protocol/frame.ts';
import type { FlightRecord } from '../protocol/flightRecording.ts';
import type { Clock } from '../util/clock.ts';
import {
  MismatchError,
  messageOf,
  PeerGoneError,
  PeergradError,
  ProtocolError,
  TimeoutError,
  type ErrorContext,
} from '../util/errors.ts';
import { createAgreement, type Agreement } from './diagnostics/agreement.ts';
import type { Codec } from './codecs.ts';
import { algorithmName, describeOp, isSameOp, opName, type OpDescriptor } from './diagnostics/descriptor.ts';
import { diagnose, Report } from './diagnostics/diagnosis.ts';
import { maxSegment, type Dtype, type TypedArray } from './dtypes.ts';
import { HangDiagnostics, type Reports } from './diagnostics/hangDiagnostics.ts';
import type { Mesh, MeshListener } from './mesh.ts';
import { MonitoredBarrier, type MonitoredBarrierOptions } from './diagnostics/monitoredBarrier.ts';
import { PlanOp } from './planOp.ts';
import { PointToPoint } from './pointToPoint.ts';
import type { Planner } from './plans/plans.ts';
import { Work, type OpTrace } from './work.ts';

/**
 * What an op may send to a rank before that rank has issued it: small ops never wait for a round
 * trip.
 */
export const EAGER_BYTES = 256 * 1024;
/**
 * Ops in inFlight at once; further ones wait here. With EAGER_BYTES it bounds what a neighbour may
 * have to park.
 */
const MAX_OPS_IN_FLIGHT = 64;
/**
 * How long other ranks may take to say what they have called, once something is wrong; at most half
 * the op's own deadline.
 */
const INQUIRY_MS = 1000;
/** Longest reason passed on: it has to fit a frame. */
const MAX_REASON_LENGTH = 4000;

interface ExecutorOptions {
  mesh: Mesh;
  /** Global ranks of the group, by rank in the group. */
  ranks: readonly number[];
  segmentElements: number;
  clock: Clock;
}

export interface Issue<T> {
  descriptor: OpDescriptor;
  dtype: Dtype;
  plan: Planner;
  source: TypedArray;
  target: TypedArray;
  codec?: Codec;
  lost?: Float32Array | null;
  /** What messages say for the descriptor's count. */
  amount?: string | undefined;
  timeoutMs: number;
  /** Made when the op is done. */
  result: () => T;
  /** What the work's trace is then. */
  trace?: (op: PlanOp, startedAt: number) => OpTrace;
}

interface InFlightOp {
  readonly seq: number;
  readonly op: PlanOp;
  readonly record: FlightRecord;
  readonly finish: () => void;
  readonly fail: (error: Error) => void;
  readonly sent: (bytes: number) => void;
  readonly cancelDeadline: () => void;
  readonly timeoutMs: number;
  isLaunched: boolean;
  isThrough: boolean;
  readonly agreement: Agreement;
  readonly flows: Map<number, SendWindow>;
}

/** What may go to one rank. */
interface SendWindow {
  isReady: boolean;
  eagerLeft: number;
  /** Sends off what waits for READY. */
  release: (() => void) | null;
}

const News = v.variant('type', [
  /** The sender has given the group up. */
  v.strictObject({
    type: v.literal('abort'),
    name: v.string(),
    message: v.string(),
    /**
     * Where it happened, as far as the sender's error knows; the sender is not always the rank that
     * found it.
     */
    rank: v.optional(v.number()),
    op: v.optional(v.string()),
    seq: v.optional(v.number()),
    missing: v.optional(v.array(v.number())),
  }),
  /** What have you called as number `seq`? */
  v.strictObject({ type: v.literal('inquiry'), seq: v.number() }),
  v.strictObject({ type: v.literal('report'), seq: v.number(), report: Report }),
  /** monitoredBarrier number `barrier`: the sender has come; all have. */
  v.strictObject({ type: v.picklist(['arrived', 'passed']), barrier: v.pipe(v.number(), v.integer()) }),
]);
type News = v.InferOutput<typeof News>;

/** Errors that news carries to other ranks as what they are; any other arrives as PeerGoneError. */
const ABORT_ERRORS: ReadonlyMap<string, new (message: string, context?: ErrorContext) => PeergradError> = new Map([
  ['MismatchError', MismatchError],
  ['TimeoutError', TimeoutError],
  ['ProtocolError', ProtocolError],
]);

export class Executor {
  readonly #options: ExecutorOptions;
  /** Number of the group on the mesh. */
  readonly id: number;
  /** In the group; -1 for who is no member. */
  readonly rank: number;
  readonly messages: PointToPoint;
  readonly #barrier: MonitoredBarrier;
  readonly #diagnostics: HangDiagnostics;
  readonly #inFlightOps = new Map<number, InFlightOp>();
  /** Frames of ops that this rank has not issued yet, by sequence number. */
  readonly #unexpectedFrames = new Map<number, { header: FrameHeader; frame: ArrayBuffer; from: number }[]>();
  /** Numbers taken for ops that will be issued once their sizes are known. */
  readonly #reserved = new Set<number>();
  /** The number that the op being issued has taken before. */
  #given: number | null = null;
  #nextSeq = 0;
  #launched = 0;
  #bytesSent = 0;
  #bytesReceived = 0;
  #failure: Error | null = null;
  /** Of the latest collective. */
  #lastRecord: FlightRecord | null = null;

  constructor(options: ExecutorOptions) {
    this.#options = options;
    const { mesh, ranks, clock, segmentElements } = options;
    this.rank = ranks.indexOf(mesh.rank);
    const listener: MeshListener = {
      onframe: (header, frame, from) => this.#receive(header, frame, ranks.indexOf(from)),
      onspectatorupdate: (body, from) => this.#hear(v.parse(News, body), from),
      onlost: (peer, error) => this.#lost(peer, error),
      onbroken: (peer, error) => {
        if (ranks.includes(peer)) this.fail(error);
      },
      onend: (error) => this.fail(error, { tell: false }),
    };
    this.id = mesh.register(listener, ranks);
    this.messages = new PointToPoint({
      ...{
        group: this.id,
        rank: this.rank,
        ranks,
        generation: mesh.generation,
        segmentElements,
        clock,
        recorder: mesh.recorder,
      },
      parking: mesh.parkedMessages,
      transmit: (to, frame, count) => this.#transmit(to, frame, count),
      fail: (error) => this.fail(error),
      crash: (call, error) => this.#crash(call, error),
      failure: () => this.#failure,
      context: () => this.#context,
    });
    this.#barrier = new MonitoredBarrier({
      ...{ rank: this.rank, ranks, clock },
      tell: (type, barrier) => this.#spread({ type, barrier }),
      fail: (error) => this.fail(error),
      failure: () => this.#failure,
      context: () => this.#context,
    });
    this.#diagnostics = new HangDiagnostics({
      ...{ self: mesh.rank, ranks, clock, reportOn: (seq) => this.#reportOn(seq) },
      tell: (news) => this.#spread(news),
    });
    // Groups are numbered alike on all ranks; who is no member hears nothing.
    if (this.rank < 0) mesh.unregister(this.id);
    else mesh.listen();
  }

  get bytesSent(): number {
    return this.#bytesSent;
  }

  get bytesReceived(): number {
    return this.#bytesReceived;
  }

  /** Why the group is over; `null` while it is not. */
  get failure(): Error | null {
    return this.#failure;
  }

  /** Where every error that this rank finds happened. */
  get #context(): ErrorContext {
    const { rank, worldSize, generation } = this.#options.mesh;
    return { rank, worldSize, generation };
  }

  /**
   * Takes the next sequence number for an op whose size is not known yet, so that the order stays
   * that of the calls. What it gives issues the op under that number.
   */
  reserve(): <T>(issue: () => T) => T {
    const seq = this.#nextSeq++;
    this.#reserved.add(seq);
    return (issue) => {
      this.#given = seq;
      try {
        return issue();
      } finally {
        this.#given = null;
      }
    };
  }

  issue<T>({ descriptor, dtype, plan, source, target, amount, timeoutMs, ...rest }: Issue<T>): Work<T> {
    const { result, trace, codec = null, lost = null } = rest;
    const { mesh, ranks, segmentElements, clock } = this.#options;
    const isReserved = this.#given !== null;
    const seq = this.#given ?? this.#nextSeq++;
    this.#reserved.delete(seq);
    this.#given = null;
    const header: FrameHeader = {
      ...{ ...emptyHeader(FrameKind.DATA, mesh.generation), ...descriptor },
      ...{ group: this.id, seq },
    };
    const op = new PlanOp({
      ...{ descriptor, dtype, plan: plan(this.rank), source, target, codec, lost, header, worldSize: ranks.length },
      segmentElements: Math.min(segmentElements, codec?.maxSegment ?? maxSegment(dtype)),
      emit: (peer, frame) => this.#emit(inFlight, peer, frame),
      onfailure: (error) => this.#crash(call, error, seq),
      ondone: () => {
        inFlight.isThrough = true;
        this.#settle(inFlight);
      },
      onturn: (peer) => {
        if (takesTurns(descriptor)) this.#makeReady(inFlight, peer);
      },
      now: () => clock.now(),
    });
    const call = describeOp(descriptor, (rank) => this.#global(rank), amount);
    const work = new Work<T>(`${call} #${seq} of rank ${mesh.rank}`, clock);
    const scheduledAt = clock.now();
    if (this.#failure) {
      work.fail(this.#failure);
      return work;
    }
    const flows = new Map<number, SendWindow>();
    for (const peer of op.peers) {
      const isReady = op.bytes('send', peer) <= EAGER_BYTES;
      flows.set(peer, { isReady, eagerLeft: EAGER_BYTES, release: null });
    }
    const record = mesh.recorder.add(
      {
        ...{ group: this.id, kind: 'collective', seq, op: opName(descriptor.op), dtype: dtype.name },
        ...{ algorithm: algorithmName(descriptor.algorithm), count: descriptor.count, call },
      },
      scheduledAt,
    );
    const inFlight: InFlightOp = {
      ...{ seq, op, record, timeoutMs, flows },
      agreement: createAgreement(descriptor, this.rank, ranks.length),
      finish: () => work.complete(result(), trace?.(op, scheduledAt) ?? null),
      fail: (error) => work.fail(error),
      sent: (bytes) => {
        work.sent(bytes);
        record.bytesSent += bytes;
      },
      cancelDeadline: clock.after(timeoutMs, () => this.#expire(inFlight)),
      ...{ isLaunched: false, isThrough: false },
    };
    this.#lastRecord = inFlight.record;
    this.#inFlightOps.set(seq, inFlight);
    // Its turn was when its number was taken: other ranks may wait for it before they issue what is
    // in inFlight here.
    if (isReserved) this.#launch(inFlight);
    else this.#launchNext();
    this.#diagnostics.called(seq);
    return work;
  }

  /**
   * torch's monitored_barrier: rank 0 of the group waits for all others and names those that do not
   * come.
   */
  async monitoredBarrier(options: MonitoredBarrierOptions): Promise<void> {
    await this.#barrier.pass(options);
  }

  /**
   * Gives the group up: rejects every op in inFlight here and, unless told not to, tells all other
   * ranks why.
   */
  fail(error: Error, { tell = true } = {}): void {
    if (this.#failure) return;
    this.#failure = error;
    const { mesh, clock } = this.#options;
    if (tell) mesh.spread(this.id, abortNews(error));
    mesh.unregister(this.id);
    this.#diagnostics.drop();
    for (const { cancelDeadline, fail, record } of this.#inFlightOps.values()) {
      cancelDeadline();
      record.state = 'failed';
      record.endedAt = clock.now();
      fail(error);
    }
    this.#inFlightOps.clear();
    for (const seq of this.#unexpectedFrames.keys()) this.#unpark(seq);
    this.messages.fail(error);
    this.#barrier.fail(error);
  }

  #receive(header: FrameHeader, frame: ArrayBuffer, from: number): void {
    if (from < 0) throw new ProtocolError(`A rank that is no member sent frames of group ${this.id}.`, this.#context);
    if (header.op === OpCode.SEND) {
      this.#bytesReceived += frame.byteLength;
      return this.messages.receive(header, frame, from);
    }
    const inFlight = this.#inFlightOps.get(header.seq);
    if (inFlight?.isLaunched) return this.#deliver(inFlight, header, frame, from);
    if (this.#isOver(header.seq)) {
      // What only announces may come late; data may not.
      if (header.kind !== FrameKind.DATA) return;
      throw new ProtocolError(
        `Rank ${this.#global(from)} sent data of collective #${header.seq}, which is over.`,
        this.#context,
      );
    }
    this.#options.mesh.parkedCollectives.enter(frame, this.#global(from));
    const unexpected = this.#unexpectedFrames.get(header.seq);
    if (unexpected) unexpected.push({ header, frame, from });
    else this.#unexpectedFrames.set(header.seq, [{ header, frame, from }]);
  }

  #deliver(inFlight: InFlightOp, header: FrameHeader, frame: ArrayBuffer, from: number): void {
    // A frame that came before the call counts with it, and not with what ran then.
    this.#bytesReceived += frame.byteLength;
    // What was unexpected behind the frame that has failed the group.
    if (this.#failure) return;
    if (!isSameOp(header, inFlight.op.descriptor) || !inFlight.op.expects(header, from))
      return this.#mismatch(inFlight.seq);
    if (header.kind === FrameKind.CALL) inFlight.agreement.hear(header.step, from);
    else if (header.kind === FrameKind.READY) {
      const window = inFlight.flows.get(from);
      if (window) window.isReady = true;
      window?.release?.();
    } else if (header.kind === FrameKind.DATA) {
      try {
        inFlight.op.receive(header, frame, from);
      } catch (error) {
        const { call } = inFlight.record;
        if (!(error instanceof ProtocolError)) return this.#crash(call, error, inFlight.seq);
        throw new ProtocolError(
          `Rank ${this.#global(from)} is out of step in collective #${inFlight.seq} ${call}: ${messageOf(error)}.`,
          { ...this.#context, op: call, seq: inFlight.seq },
        );
      }
    }
    this.#tellCalls(inFlight);
    this.#settle(inFlight);
  }

  #launchNext(): void {
    for (const inFlight of this.#inFlightOps.values()) {
      if (this.#launched >= MAX_OPS_IN_FLIGHT) return;
      if (!inFlight.isLaunched) this.#launch(inFlight);
    }
  }

  #launch(inFlight: InFlightOp): void {
    const { clock } = this.#options;
    const { op, seq, record } = inFlight;
    const { call } = record;
    inFlight.isLaunched = true;
    this.#launched += 1;
    record.state = 'started';
    record.startedAt = clock.now();
    if (!takesTurns(op.descriptor)) for (const peer of op.peers) this.#makeReady(inFlight, peer);
    this.#tellCalls(inFlight);
    try {
      for (const { header, frame, from } of this.#unpark(seq)) this.#deliver(inFlight, header, frame, from);
      if (!this.#failure) op.start();
    } catch (error) {
      if (error instanceof ProtocolError) this.fail(error);
      else this.#crash(call, error, seq);
    }
  }

  /** Takes the frames that have come of an op. */
  #unpark(seq: number): { header: FrameHeader; frame: ArrayBuffer; from: number }[] {
    const unexpected = this.#unexpectedFrames.get(seq) ?? [];
    this.#unexpectedFrames.delete(seq);
    for (const { frame, from } of unexpected) this.#options.mesh.parkedCollectives.leave(frame, this.#global(from));
    return unexpected;
  }

  /** Lets a rank send more than its eager bytes. */
  #makeReady(inFlight: InFlightOp, peer: number): void {
    if (inFlight.op.bytes('receive', peer) > EAGER_BYTES) this.#announce(inFlight, FrameKind.READY, peer);
  }

  /** Tells others that this rank has called the op, and those of which it knows. */
  #tellCalls(inFlight: InFlightOp): void {
    // In an all-to-all once what all others send is seen to be as much as this rank expects.
    if (!inFlight.op.isAgreed) return;
    for (const { to, step } of inFlight.agreement.told()) this.#announce(inFlight, FrameKind.CALL, to, step);
  }

  #announce(inFlight: InFlightOp, kind: FrameKind, to: number, step = 0): void {
    const { mesh } = this.#options;
    const header = {
      ...emptyHeader(kind, mesh.generation),
      ...inFlight.op.descriptor,
      group: this.id,
      seq: inFlight.seq,
      step,
    };
    const { call } = inFlight.record;
    const sent = this.#transmit(to, createFrame(header, 0), inFlight.sent);
    sent.catch((error: unknown) => this.#crash(call, error, inFlight.seq));
  }

  #settle(inFlight: InFlightOp): void {
    const { seq, record } = inFlight;
    if (!inFlight.isThrough || !inFlight.agreement.isReached || !this.#inFlightOps.has(seq)) return;
    try {
      inFlight.finish();
    } catch (error) {
      // Its result, for which there may be no memory.
      return this.#crash(record.call, error, seq);
    }
    this.#inFlightOps.delete(seq);
    this.#launched -= 1;
    inFlight.cancelDeadline();
    record.state = 'completed';
    record.endedAt = this.#options.clock.now();
    this.#diagnostics.ended(seq);
    this.#launchNext();
  }

  /** A segment for `peer`: waits for its READY where the eager bytes are used up. */
  #emit(inFlight: InFlightOp, peer: number, frame: ArrayBuffer): Promise<void> {
    const window = inFlight.flows.get(peer)!;
    const mustWait = !window.isReady && window.eagerLeft < frame.byteLength;
    window.eagerLeft -= frame.byteLength;
    if (!mustWait) return this.#transmit(peer, frame, inFlight.sent);
    return new Promise<void>((release) => (window.release = release)).then(() =>
      this.#transmit(peer, frame, inFlight.sent),
    );
  }

  /**
   * Every frame's way out. Rejects once the group has failed: receivers have given it up too, and
   * senders are to stop.
   */
  #transmit(to: number, frame: ArrayBuffer, count?: (bytes: number) => void): Promise<void> {
    if (this.#failure) return Promise.reject(this.#failure);
    this.#bytesSent += frame.byteLength;
    count?.(frame.byteLength);
    return this.#options.mesh.send(this.#global(to), frame);
  }

  #global(rank: number): number {
    return this.#options.ranks[rank]!;
  }

  #lost(peer: number, error: Error | null): void {
    if (!this.#options.ranks.includes(peer)) return;
    const [inFlight] = this.#inFlightOps.values();
    const during = inFlight ? ` during collective #${inFlight.seq} ${inFlight.record.call}` : '';
    const because = error ? `: ${error.message}` : '.';
    this.fail(
      new PeerGoneError(`Rank ${this.#options.mesh.rank} lost its link to rank ${peer}${during}${because}`, {
        ...this.#context,
        missing: [peer],
      }),
    );
  }

  #spread(news: News): void {
    if (!this.#failure) this.#options.mesh.spread(this.id, news);
  }

  /** This rank cannot go on with an op, for which no other rank is to blame. */
  #crash(call: string, error: unknown, seq?: number): void {
    if (this.#failure) return;
    const what = seq === undefined ? call : `collective #${seq} ${call}`;
    const message = `Rank ${this.#options.mesh.rank} cannot go on with ${what}: ${messageOf(error)}. Do not change or transfer its tensors before it is done, and see that there is memory for its result.`;
    this.fail(new PeergradError(message, { ...this.#context, op: call, seq }, { cause: error }));
  }

  #hear(news: News, from: number): void {
    switch (news.type) {
      case 'abort': {
        const { name, message, op, seq, missing } = news;
        // Another rank's word is never this rank's own finding, which it would report to the
        // server.
        const rank = news.rank === undefined || news.rank === this.#options.mesh.rank ? from : news.rank;
        const Reason = ABORT_ERRORS.get(name) ?? PeerGoneError;
        // Where all ranks were asked, this rank knows itself which ranks are missing. Another
        // rank's word could blame any rank.
        const heard = Reason === TimeoutError && seq !== undefined ? this.#diagnostics.heardOf(seq) : null;
        const where = heard === null ? { rank, missing } : { missing: diagnose(heard).missing };
        return this.fail(new Reason(message, { ...this.#context, ...where, op, seq }), { tell: false });
      }
      case 'inquiry':
        return this.#diagnostics.answer(news.seq);
      case 'report':
        return this.#diagnostics.hear(news.seq, news.report, from);
      case 'arrived':
      case 'passed':
        return this.#barrier.hear(news.type, news.barrier, from);
      default:
        news satisfies never;
    }
  }

  #reportOn(seq: number): Report {
    const record = this.#inFlightOps.get(seq)?.record ?? this.#findRecord(seq);
    const last = this.#lastRecord;
    return {
      call: record?.call ?? null,
      state: record?.state ?? (this.#isOver(seq) ? 'completed' : null),
      last: last ? { seq: last.seq!, call: last.call, state: last.state } : null,
    };
  }

  /** Whether this rank has called the collective and is through with it. */
  #isOver(seq: number): boolean {
    return seq < this.#nextSeq && !this.#inFlightOps.has(seq) && !this.#reserved.has(seq);
  }

  /** Of a collective that is over, as long as the recorder has it. */
  #findRecord(seq: number): FlightRecord | undefined {
    return this.#options.mesh.recorder.records.findLast(
      (record) => record.group === this.id && record.kind === 'collective' && record.seq === seq,
    );
  }

  #mismatch(seq: number): void {
    const conclude = (reports: Reports): void => {
      const { text } = diagnose(reports);
      const rule = 'Every rank must issue the same collectives in the same order.';
      const message = `Ranks disagree about collective #${seq}. ${text} ${rule}`;
      this.fail(new MismatchError(message, { ...this.#context, seq }));
    };
    this.#diagnostics.ask({ seq, isForDeadline: false, waitMs: INQUIRY_MS, conclude });
  }

  #expire({ seq, op, record: { call }, timeoutMs, flows }: InFlightOp): void {
    const conclude = (reports: Reports): void => {
      const { missing, text } = diagnose(reports);
      const lacking = missing.length > 0 ? '' : this.#lacking(op, flows);
      const waited = `rank ${this.#options.mesh.rank} waited ${timeoutMs} ms in collective #${seq} ${call}${lacking}`;
      this.fail(new TimeoutError(`Timed out: ${waited}. ${text}`, { ...this.#context, op: call, seq, missing }));
    };
    this.#diagnostics.ask({ seq, isForDeadline: true, waitMs: Math.min(INQUIRY_MS, timeoutMs / 2), conclude });
  }

  /**
   * Where all have called an op and it does not end, what has not come says most: `; it has 0 of 40
   * elements of rank 1`.
   */
  #lacking(op: PlanOp, flows: InFlightOp['flows']): string {
    const [late] = op.missing();
    if (late) return `; it has ${late.received} of ${late.expected} elements of rank ${this.#global(late.peer)}`;
    const waiting = [...flows].find(([, { release, isReady }]) => release !== null && !isReady);
    return waiting ? `; rank ${this.#global(waiting[0])} is not ready for its data` : '';
  }
}

/**
 * Whether several ranks' whole tensors are combined one after the other: later ones must not pile
 * up meanwhile.
 */
function takesTurns({ op }: OpDescriptor): boolean {
  return op === OpCode.REDUCE;
}

function abortNews(error: Error): News {
  const { rank, op, seq, missing }: ErrorContext = error instanceof PeergradError ? error.context : {};
  const where = Object.fromEntries(
    Object.entries({ rank, op, seq, missing }).filter(([, value]) => value !== undefined),
  );
  return { type: 'abort', name: error.name, message: error.message.slice(0, MAX_REASON_LENGTH), ...where };
}
