/**
 * A collective from its call to its end. It runs this rank's plan, driven by arriving segments. A
 * move is one send or receive of the plan. A move processes elements as soon as all earlier moves
 * are done with these elements. So some segments of a chunk travel while others are combined.
 *
 * Flow control is similar to the eager and rendezvous protocols of MPI. The first
 * {@link MAX_BYTES_BEFORE_READY} to a rank may be sent before that rank has called the op. They are
 * unexpected messages on that rank. All other bytes wait for that rank's READY.
 */
import { createFrame, emptyFrameHeader, FrameKind, OpCode, type FrameHeader } from '../protocol/frame.ts';
import type { FlightRecord } from '../protocol/flightRecording.ts';
import type { AllReduceName } from '../spec/algorithms.ts';
import type { Clock } from '../util/clock.ts';
import { ProtocolError } from '../util/errors.ts';
import { createCallAgreement, type CallAgreement } from './diagnostics/agreement.ts';
import { algorithmName, isSameOp, collectiveOpName, type CollectiveOpDescriptor } from './diagnostics/descriptor.ts';
import { OpDeadline } from './diagnostics/opDeadline.ts';
import type { Mesh } from './mesh.ts';
import type { ProcessGroupOptions } from './options.ts';
import { CollectivePayload, type CollectiveArrays } from './payload.ts';
import {
  createSendLanes,
  createMoveProgress,
  areEarlierPlanMovesDone,
  moveLength,
  transferKey,
  type SendLane,
  type MoveProgress,
} from './plans/moveProgress.ts';
import { planStepNumbers, type PlanMove, type CollectivePlanner } from './plans/plans.ts';
import type { AllReduceTrace, Work } from './work.ts';

/**
 * Number of bytes that an op may send to a rank before that rank's READY, so that small ops never
 * wait for a round trip.
 */
export const MAX_BYTES_BEFORE_READY = 256 * 1024;

/** The description of a collective that the process group issues. */
export interface OpDescription<T> extends CollectiveArrays {
  plan: CollectivePlanner;
  /** Text for the descriptor's count in error messages. */
  amount?: string | undefined;
  timeoutMs: number;
  /** See {@link OpOptions.after}. */
  after?: PromiseLike<unknown> | undefined;
  /** Writes the op's input to its arrays. Called when the op is launched. */
  before?: (() => void) | undefined;
  /** Whether every rank's result contains data of all ranks. See {@link createCallAgreement}. */
  needsEveryRank?: boolean;
  /** Creates the result when the op is done. */
  result: () => T;
  /** The algorithm of an all-reduce. If it is set, the op's work has a trace. */
  traced?: AllReduceName;
}

/** The executor of the group, as its ops use it. */
export interface GroupOpExecutor {
  /** Number of the group on the mesh. */
  readonly id: number;
  /** This rank in the group. */
  readonly rank: number;
  readonly options: Pick<ProcessGroupOptions, 'activityOf'> & {
    readonly mesh: Mesh;
    /** Global ranks of the group. */
    readonly ranks: readonly number[];
    readonly segmentElements: number;
    readonly clock: Clock;
  };
  /**
   * Sends a frame and counts its bytes. Resolves when the link accepts more; rejects once the group
   * has failed.
   */
  transmit(to: number, frame: ArrayBuffer, count: (bytes: number) => void): Promise<void>;
  /** Called when an op cannot continue and no other rank is the cause. */
  crash(call: string, error: unknown, seq: number): void;
  /** Called when all data of an op is sent and received. */
  settle(op: InFlightOp): void;
  /** Called when an op has made no progress for its timeout. */
  expire(op: InFlightOp): void;
}

export class InFlightOp {
  readonly seq: number;
  /** Text of the call for error messages. */
  readonly call: string;
  readonly timeoutMs: number;
  readonly deadline: OpDeadline;
  readonly record: FlightRecord;
  isLaunched = false;
  /** The time at which data of the op last arrived or left; `null` before that. */
  movedAt: number | null = null;
  /** Whether the caller's tensor has its values. */
  hasInput: boolean;
  readonly #issue: OpDescription<unknown>;
  readonly #work: Work<unknown>;
  readonly #executor: GroupOpExecutor;
  readonly #descriptor: CollectiveOpDescriptor;
  readonly #payload: CollectivePayload;
  /** Numbers of the plan's steps, for a trace. */
  readonly #steps: readonly number[];
  readonly #agreement: CallAgreement;
  readonly #moves: readonly MoveProgress[];
  /** Receives by {@link transferKey}. */
  readonly #receives = new Map<number, MoveProgress>();
  readonly #lanes: ReadonlyMap<number, SendLane>;
  /** The header of DATA frames. Each segment's fields are written to it. */
  readonly #header: FrameHeader;
  /** Whether frames state the length of their transfer, as they must in an all-to-all. */
  readonly #carriesLengths: boolean;
  /**
   * Whether the op combines whole tensors of several ranks one after the other. Then a rank may
   * send more than its eager bytes only when its turn comes, because tensors that wait for their
   * turn would fill the receiver's memory.
   */
  readonly #takesTurns: boolean;
  /** Number of moves that are not done. */
  #remaining: number;
  #busyLanes = 0;
  #isStarted = false;
  /** Whether all data of the op is sent and received. */
  #isThrough = false;
  /**
   * The segment that was just combined or copied. If the next frame to send has the same elements,
   * this buffer is reused.
   */
  #taken: { frame: ArrayBuffer; start: number; end: number } | null = null;

  /** @throws UsageError if the dtype does not support the reduction. */
  constructor(
    issue: OpDescription<unknown>,
    seq: number,
    call: string,
    work: Work<unknown>,
    executor: GroupOpExecutor,
  ) {
    const { descriptor, dtype, source, target, timeoutMs } = issue;
    const { mesh, ranks, clock, segmentElements, activityOf } = executor.options;
    const { progress, recorder, generation } = mesh;
    this.#issue = issue;
    this.#work = work;
    this.#executor = executor;
    this.#descriptor = descriptor;
    this.seq = seq;
    this.call = call;
    this.timeoutMs = timeoutMs;
    this.hasInput = issue.after === undefined;
    this.#payload = new CollectivePayload(issue, ranks.length, segmentElements);
    this.#header = { ...emptyFrameHeader(FrameKind.DATA, generation), ...descriptor, group: executor.id, seq };
    this.#carriesLengths = descriptor.op === OpCode.ALL_TO_ALL;
    this.#takesTurns = descriptor.op === OpCode.REDUCE;
    const plan = issue.plan(executor.rank);
    this.#steps = issue.traced ? planStepNumbers(plan) : [];
    const moves = plan.filter((move) => this.#carriesLengths || moveLength(move) > 0);
    this.#moves = createMoveProgress(moves, source === target);
    this.#remaining = this.#moves.length;
    for (const receive of this.#moves) {
      const { kind, peer, step } = receive.move;
      if (kind === 'receive') this.#receives.set(transferKey(peer, step), receive);
    }
    this.#lanes = createSendLanes(this.#moves, (move) => this.#unexpectedBytesOf(move), MAX_BYTES_BEFORE_READY);
    this.#agreement = createCallAgreement(descriptor, executor.rank, ranks.length, issue.needsEveryRank);
    const scheduledAt = clock.now();
    this.record = recorder.add(
      {
        group: executor.id,
        kind: 'collective',
        seq,
        op: collectiveOpName(descriptor.op),
        dtype: dtype.name,
        algorithm: algorithmName(descriptor.algorithm),
        count: descriptor.count,
        call,
      },
      scheduledAt,
    );
    this.deadline = new OpDeadline({
      ...{ clock, timeoutMs, progress, activityOf },
      awaited: () => this.awaited,
      progressAt: () => progress.since(scheduledAt),
      onexpire: () => executor.expire(this),
    });
  }

  /** Whether all data of the op is sent and received, and all ranks are known to have called it. */
  get isSettled(): boolean {
    return this.#isThrough && this.#agreement.isReached;
  }

  /** The global ranks whose data or READY the op waits for. */
  get awaited(): number[] {
    if (!this.hasInput) return [];
    return [...new Set([...this.missing, ...this.stalled])];
  }

  /** The global ranks whose data is missing. */
  get missing(): number[] {
    const late = this.#moves.filter(({ move, arrived }) => move.kind === 'receive' && arrived < moveLength(move));
    return this.#globally(new Set(late.map(({ move }) => move.peer)));
  }

  /** The global ranks whose links have not accepted a frame of this op yet. */
  get stalled(): number[] {
    return this.#globally([...this.#lanes].filter(([, { isBusy }]) => isBusy).map(([peer]) => peer));
  }

  /** The global ranks whose READY this rank waits for. */
  get blocked(): number[] {
    const blocked = [...this.#lanes].filter(([, { release, isReady }]) => release !== null && !isReady);
    return this.#globally(blocked.map(([peer]) => peer));
  }

  /** Returns the bytes of data that have arrived or left, and how many there are in all. */
  amount(kind: PlanMove['kind']): { moved: number; total: number } {
    const moves = this.#moves.filter(({ move }) => move.kind === kind);
    const bytesOf = (elements: (progress: MoveProgress) => number): number =>
      moves.reduce((sum, progress) => sum + this.#payload.bytesOf(elements(progress)), 0);
    return {
      moved: bytesOf(({ arrived, done }) => (kind === 'receive' ? arrived : done)),
      total: bytesOf(({ move }) => moveLength(move)),
    };
  }

  /** Writes the input, allows other ranks to send, and announces the call to them. */
  launch(): void {
    this.isLaunched = true;
    this.#issue.before?.();
    this.record.state = 'started';
    this.record.startedAt = this.#now();
    if (!this.#takesTurns) for (const peer of new Set(this.#moves.map(({ move }) => move.peer))) this.#makeReady(peer);
    this.announceCalls();
  }

  /** Sends what this rank can send before it receives anything. */
  start(): void {
    this.#isStarted = true;
    for (const { move, writers } of this.#moves) {
      if (this.#takesTurns && move.kind === 'receive' && writers.length === 0) this.#makeReady(move.peer);
    }
    for (const [peer, lane] of this.#lanes) this.#pump(peer, lane);
    this.#settle();
  }

  /** Whether a frame belongs to the op and matches this rank's call. */
  matches(header: FrameHeader, from: number): boolean {
    if (!isSameOp(header, this.#descriptor)) return false;
    if (header.kind !== FrameKind.DATA || !this.#carriesLengths) return true;
    const progress = this.#receives.get(transferKey(from, header.step));
    return !progress || header.count === moveLength(progress.move);
  }

  /** @throws ProtocolError if a DATA frame does not belong to the op's plan. */
  receive(header: FrameHeader, frame: ArrayBuffer, from: number): void {
    if (header.kind === FrameKind.CALL) this.#agreement.receive(header.step, from);
    else if (header.kind === FrameKind.READY) this.#open(from);
    else if (header.kind === FrameKind.DATA) this.#receiveData(header, frame, from);
  }

  /** Tells other ranks which ranks, including this one, are known to have called the op. */
  announceCalls(): void {
    // In an all-to-all, this rank sends no CALL frames before the first data of every other rank
    // has arrived. The data shows that the other rank sends as much as this rank expects.
    if (this.#carriesLengths) {
      for (const { arrived, endedAt } of this.#receives.values()) if (arrived === 0 && endedAt === null) return;
    }
    for (const { to, step } of this.#agreement.takeCalls()) this.#announce(FrameKind.CALL, to, step);
  }

  /** Resolves the work. @throws if its result cannot be created. */
  complete(): void {
    this.#work.complete(this.#issue.result(), this.#trace());
    this.#end('completed');
  }

  /** Rejects the work. */
  fail(error: Error): void {
    this.#end('failed');
    this.#work.fail(error);
  }

  #end(state: 'completed' | 'failed'): void {
    this.deadline.cancel();
    this.record.state = state;
    this.record.endedAt = this.#now();
  }

  /** Returns the times of this rank's sends and receives in each step of its plan, for a page. */
  #trace(): AllReduceTrace | null {
    const { traced: algorithm } = this.#issue;
    if (!algorithm) return null;
    const hops = this.#steps.map((planStep) => {
      const [sent, received] = (['send', 'receive'] as const).map((kind) =>
        this.#moves.find(({ move }) => move.kind === kind && move.step === planStep),
      );
      const { spentMs: reduceMs = 0 } = received ?? {};
      return { planStep, sentAt: sent?.endedAt ?? null, receivedAt: received?.endedAt ?? null, reduceMs };
    });
    return { startedAt: this.record.scheduledAt, algorithm, hops };
  }

  #receiveData({ step, offset }: FrameHeader, frame: ArrayBuffer, from: number): void {
    const elements = this.#payload.elementsOf(frame);
    const progress = this.#receives.get(transferKey(from, step));
    const length = progress ? moveLength(progress.move) : 0;
    const room = length - (progress?.arrived ?? 0);
    const isNothing = elements === 0 && (length > 0 || progress?.endedAt !== null);
    if (!progress || offset !== progress.arrived || elements > room || !Number.isInteger(elements) || isNothing) {
      throw new ProtocolError(`${elements} elements at offset ${offset} of step ${step} do not belong to the plan`);
    }
    this.#moved();
    progress.arrived += elements;
    progress.early.push(frame);
    this.#take(progress);
    this.#settle();
  }

  /** Combines all segments that have arrived and whose turn it is. */
  #take(progress: MoveProgress): void {
    const { move, early } = progress;
    while (early.length > 0) {
      const frame = early[0]!;
      const start = move.start + progress.done;
      const end = start + this.#payload.elementsOf(frame);
      if (!areEarlierPlanMovesDone(progress, start, end)) return;
      early.shift();
      const since = this.#now();
      this.#payload.take(frame, move.how, start, end);
      progress.spentMs += this.#now() - since;
      this.#advance(progress, end - start);
      this.#taken = { frame, start, end };
      this.#wakeAfter(progress);
      this.#taken = null;
    }
  }

  /** Continues the moves that wait for this move. */
  #wakeAfter({ after }: MoveProgress): void {
    for (const next of after) {
      const { kind, peer } = next.move;
      if (kind === 'send') this.#pump(peer, this.#lanes.get(peer)!);
      else this.#take(next);
    }
  }

  /** Sends to `peer` all segments that are ready. */
  #pump(peer: number, lane: SendLane): void {
    while (this.#isStarted && !lane.isBusy) {
      const progress = lane.sends[lane.next];
      if (!progress) return;
      const { move } = progress;
      const start = move.start + progress.done;
      const end = this.#payload.segmentEnd(move, start);
      if (!areEarlierPlanMovesDone(progress, start, end)) return;
      const header = this.#header;
      header.step = move.step;
      header.offset = progress.done;
      if (this.#carriesLengths) header.count = moveLength(move);
      const frame = this.#payload.frameOf(header, move.how, start, end, this.#taken);
      if (frame === this.#taken?.frame) this.#taken = null;
      this.#advance(progress, end - start);
      if (end === move.end) lane.next += 1;
      lane.isBusy = true;
      this.#busyLanes += 1;
      // One `then` with two callbacks creates one promise. These lines run for each frame, so
      // further promises would cost time.
      this.#send(peer, lane, frame).then(() => this.#sent(peer, lane), this.#crash);
      this.#wakeAfter(progress);
    }
  }

  /** Sends a frame: now if `peer` is ready or has eager bytes left, otherwise after READY. */
  #send(peer: number, lane: SendLane, frame: ArrayBuffer): Promise<void> {
    const mustWait = !lane.isReady && lane.eagerLeft < frame.byteLength;
    lane.eagerLeft -= frame.byteLength;
    if (!mustWait) return this.#transmit(peer, frame);
    return new Promise<void>((release) => (lane.release = release)).then(() => this.#transmit(peer, frame));
  }

  /** Sends what waits for `peer`, because `peer` is ready for all data of the op. */
  #open(peer: number): void {
    const lane = this.#lanes.get(peer);
    if (lane) lane.isReady = true;
    lane?.release?.();
  }

  #sent(peer: number, lane: SendLane): void {
    try {
      this.#moved();
      lane.isBusy = false;
      this.#busyLanes -= 1;
      this.#pump(peer, lane);
      this.#settle();
    } catch (error) {
      this.#crash(error);
    }
  }

  #advance(progress: MoveProgress, elements: number): void {
    progress.done += elements;
    if (progress.done < moveLength(progress.move)) return;
    this.#remaining -= 1;
    progress.endedAt = this.#now();
    if (!this.#takesTurns) return;
    for (const { move, writers } of progress.followers) {
      if (writers.every(({ endedAt }) => endedAt !== null)) this.#makeReady(move.peer);
    }
  }

  #settle(): void {
    if (this.#isThrough || !this.#isStarted || this.#remaining > 0 || this.#busyLanes > 0) return;
    this.#isThrough = true;
    this.#executor.settle(this);
  }

  /** Records that data of the op has arrived or left. */
  #moved(): void {
    this.movedAt = this.#now();
    this.#executor.options.mesh.progress.moved(this.record.scheduledAt, this.movedAt);
  }

  /** Allows a rank to send more than the eager bytes, if it has more. */
  #makeReady(peer: number): void {
    const bytes = this.#moves.reduce(
      (sum, { move }) => (move.kind === 'receive' && move.peer === peer ? sum + this.#unexpectedBytesOf(move) : sum),
      0,
    );
    if (bytes > MAX_BYTES_BEFORE_READY) this.#announce(FrameKind.READY, peer);
  }

  /**
   * Returns the bytes of a move that may arrive before the receiver has called the op. The sums
   * that an all-reduce copies contain data of all ranks, so their receivers have called the op.
   */
  #unexpectedBytesOf(move: PlanMove): number {
    const isSum = this.#descriptor.op === OpCode.ALL_REDUCE && move.how === 'copy';
    return isSum ? 0 : this.#payload.bytesOf(moveLength(move));
  }

  #announce(kind: FrameKind, to: number, step = 0): void {
    const { generation } = this.#executor.options.mesh;
    const header = {
      ...emptyFrameHeader(kind, generation),
      ...this.#descriptor,
      group: this.#executor.id,
      seq: this.seq,
      step,
    };
    this.#transmit(to, createFrame(header, 0)).catch(this.#crash);
  }

  #transmit(to: number, frame: ArrayBuffer): Promise<void> {
    return this.#executor.transmit(to, frame, this.#count);
  }

  readonly #count = (bytes: number): void => {
    this.#work.sent(bytes);
    this.record.bytesSent += bytes;
  };

  readonly #crash = (error: unknown): void => this.#executor.crash(this.call, error, this.seq);

  #globally(peers: Iterable<number>): number[] {
    return Array.from(peers, (peer) => this.#executor.options.ranks[peer]!);
  }

  #now(): number {
    return this.#executor.options.clock.now();
  }
}
