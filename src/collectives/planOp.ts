/**
 * Moves the data of one collective in flight: it runs this rank's plan, driven by arriving
 * segments. A move is one send or receive of the plan. It works on some elements as soon as all
 * earlier moves on the same elements are done with them. So some segments of a chunk travel while
 * others are combined.
 */
import {
  Algorithm,
  createFrame,
  FRAME_HEADER_BYTES,
  FrameKind,
  OpCode,
  ReduceOp,
  writeHeader,
  type FrameHeader,
} from '../protocol/frame.ts';
import { ProtocolError } from '../util/errors.ts';
import type { Codec } from './codecs.ts';
import { dependencies } from './plans/dependencies.ts';
import type { OpDescriptor } from './diagnostics/descriptor.ts';
import { copyInto, view, type Dtype, type TypedArray } from './dtypes.ts';
import type { Move, Plan } from './plans/plans.ts';
import { divide, reducerFor, unifyNaNs, type Reducer } from './reduce.ts';

interface PlanOpOptions {
  descriptor: OpDescriptor;
  dtype: Dtype;
  plan: Plan;
  /** Array with the data to send; the same as `target` if a collective works in place. */
  source: TypedArray;
  /** Array for the received data. */
  target: TypedArray;
  /** Codec of an all-reduce on the ring; `null` if values are not encoded. */
  codec: Codec | null;
  /**
   * An array of the target's length that receives the residual of the values that this rank
   * encodes.
   */
  residual: Float32Array | null;
  worldSize: number;
  segmentElements: number;
  /** The header of the op's DATA frames. The op owns it and writes each segment's fields to it. */
  header: FrameHeader;
  /** Sends a frame to a rank. Resolves when that rank accepts more; rejects if the op must stop. */
  emit: (peer: number, frame: ArrayBuffer) => Promise<void>;
  /**
   * Called if `emit` rejects, or if the send after it fails. Errors in `start` and `receive` are
   * thrown instead.
   */
  onfailure: (error: unknown) => void;
  /** Called for each receive once earlier receives into the same elements are done. */
  onturn: (peer: number) => void;
  /** Called once, when everything is sent and received. */
  ondone: () => void;
  now: () => number;
}

/** Progress of a move. */
interface Progress {
  readonly move: Move;
  /** `before`: earlier moves that this move waits for. `after`: moves that wait for this move. */
  readonly before: Progress[];
  readonly after: Progress[];
  /**
   * `writers`: earlier receives into the elements of this receive. `followers`: later receives
   * whose `writers` include this receive.
   */
  readonly writers: Progress[];
  readonly followers: Progress[];
  /** Number of elements that are done, counted from `move.start`. */
  done: number;
  /** Segments that arrived before they could be combined. */
  readonly early: ArrayBuffer[];
  /** Number of elements that have arrived. */
  arrived: number;
  /** Time at which the last element was done; `null` until then. */
  endedAt: number | null;
  /** Milliseconds spent on combining or copying received data. */
  spentMs: number;
}

/** The sends to one peer, in order. */
interface Lane {
  readonly sends: Progress[];
  next: number;
  /** Whether a frame is being sent and the peer does not accept another one yet. */
  isBusy: boolean;
}

export class PlanOp {
  readonly descriptor: OpDescriptor;
  readonly #options: PlanOpOptions;
  readonly #moves: readonly Progress[];
  /** Receives by {@link transferKey}. */
  readonly #receives = new Map<number, Progress>();
  readonly #lanes = new Map<number, Lane>();
  readonly #combine: Reducer | null;
  /** Whether frames state the length of their transfer, as they must in an all-to-all. */
  readonly #carriesLengths: boolean;
  /** Number of moves that are not done. */
  #remaining: number;
  #busyLanes = 0;
  #isStarted = false;
  #isDone = false;
  /** The segment just combined. If the next frame has the same elements, the buffer is reused. */
  #taken: { frame: ArrayBuffer; start: number; end: number } | null = null;

  /** @throws UsageError if the dtype does not support the reduction. */
  constructor(options: PlanOpOptions) {
    this.#options = options;
    this.descriptor = options.descriptor;
    const { plan, dtype, descriptor, source, target } = options;
    this.#combine = descriptor.reduceOp === ReduceOp.NONE ? null : reducerFor(dtype, descriptor.reduceOp);
    this.#carriesLengths = descriptor.op === OpCode.ALL_TO_ALL;
    this.#moves = plan
      .filter((move) => this.#carriesLengths || lengthOf(move) > 0)
      .map((move) => ({
        move,
        before: [],
        after: [],
        writers: [],
        followers: [],
        done: 0,
        early: [],
        arrived: 0,
        endedAt: null,
        spentMs: 0,
      }));
    this.#remaining = this.#moves.length;
    const needs = dependencies(
      this.#moves.map(({ move }) => move),
      source === target,
    );
    this.#moves.forEach((later, i) => {
      for (const earlier of needs[i]!.before.map((at) => this.#moves[at]!)) {
        later.before.push(earlier);
        earlier.after.push(later);
      }
      for (const writer of needs[i]!.writers.map((at) => this.#moves[at]!)) {
        later.writers.push(writer);
        writer.followers.push(later);
      }
      const { kind, peer, step } = later.move;
      if (kind === 'receive') this.#receives.set(transferKey(peer, step), later);
      else laneOf(this.#lanes, peer).sends.push(later);
    });
  }

  /** Sends what this rank can send before it receives anything. */
  start(): void {
    this.#isStarted = true;
    for (const { move, writers } of this.#moves) {
      if (move.kind === 'receive' && writers.length === 0) this.#options.onturn(move.peer);
    }
    for (const peer of this.#lanes.keys()) this.#pump(peer);
    this.#settle();
  }

  /** Returns the bytes that this rank receives from a peer, or sends to it, in the whole op. */
  bytes(kind: Move['kind'], peer: number): number {
    return this.#moves.reduce((sum, { move }) => {
      const isIt = move.kind === kind && move.peer === peer;
      return isIt ? sum + this.#bytesOf(lengthOf(move)) : sum;
    }, 0);
  }

  get peers(): number[] {
    return [...new Set(this.#moves.map(({ move }) => move.peer))];
  }

  /**
   * Returns the time at which the send or receive of `step` ended; `null` if there is no such time.
   */
  endOf(kind: Move['kind'], step: number): number | null {
    return this.#moves.find(({ move }) => move.kind === kind && move.step === step)?.endedAt ?? null;
  }

  /** Returns the milliseconds that the receive of `step` spent on combining or copying. */
  spentOn(step: number): number {
    return this.#moves.find(({ move }) => move.kind === 'receive' && move.step === step)?.spentMs ?? 0;
  }

  /** Returns the ranks whose data is missing, and how much of it has arrived. */
  missing(): { peer: number; received: number; expected: number }[] {
    return this.#moves
      .filter(({ move, arrived }) => move.kind === 'receive' && arrived < lengthOf(move))
      .map(({ move, arrived }) => ({ peer: move.peer, received: arrived, expected: lengthOf(move) }));
  }

  /** Whether all other ranks are known to send as much as this rank expects. */
  get isAgreed(): boolean {
    if (!this.#carriesLengths) return true;
    return [...this.#receives.values()].every(({ arrived, endedAt }) => arrived > 0 || endedAt !== null);
  }

  /**
   * Whether a transfer has the length that this rank expects. True if the frame states no length.
   */
  expects({ kind, step, count }: FrameHeader, from: number): boolean {
    const progress = this.#receives.get(transferKey(from, step));
    return kind !== FrameKind.DATA || !this.#carriesLengths || !progress || count === lengthOf(progress.move);
  }

  /** Receives a DATA frame of this op with a matching descriptor. @throws ProtocolError */
  receive({ step, offset }: FrameHeader, frame: ArrayBuffer, from: number): void {
    const elements = this.#elementsOf(frame);
    const progress = this.#receives.get(transferKey(from, step));
    const length = progress ? lengthOf(progress.move) : 0;
    const room = length - (progress?.arrived ?? 0);
    const isNothing = elements === 0 && (length > 0 || progress?.endedAt !== null);
    if (!progress || offset !== progress.arrived || elements > room || !Number.isInteger(elements) || isNothing) {
      throw new ProtocolError(`${elements} elements at offset ${offset} of step ${step} do not belong to the plan`);
    }
    progress.arrived += elements;
    progress.early.push(frame);
    this.#take(progress);
    this.#settle();
  }

  /** Combines all segments that have arrived and whose turn it is. */
  #take(progress: Progress): void {
    const { codec } = this.#options;
    const { move, early } = progress;
    while (early.length > 0) {
      const frame = early[0]!;
      const start = move.start + progress.done;
      const end = start + this.#elementsOf(frame);
      if (!isClear(progress, start, end)) return;
      early.shift();
      const since = this.#options.now();
      if (codec) this.#takeEncoded(codec, frame, move.how, start, end);
      else this.#takePlain(frame, move.how, start);
      progress.spentMs += this.#options.now() - since;
      this.#advance(progress, end - start);
      this.#taken = { frame, start, end };
      for (const next of progress.after) this.#wake(next);
      this.#taken = null;
    }
  }

  /** Combines or copies a segment; combined values are also written to its frame. */
  #takePlain(frame: ArrayBuffer, how: Move['how'], start: number): void {
    const { dtype, target, worldSize } = this.#options;
    const values = new dtype.array(frame, FRAME_HEADER_BYTES);
    if (how !== 'copy') {
      this.#combine!(values, target, start);
      if (how === 'combine-last' && this.#isAverage) divide(values, dtype, worldSize);
      // In recursive doubling, every rank combines the last two parts itself. Without this call,
      // the ranks could have NaNs with different bits. In other algorithms, one rank combines the
      // parts and the others copy the result.
      if (how === 'combine-last' && this.descriptor.algorithm === Algorithm.DOUBLING) unifyNaNs(values, dtype);
    }
    copyInto(target, values, start);
  }

  /**
   * Combines or copies an encoded segment. A final sum is encoded in the frame. The target then
   * receives the decoded values, which all other ranks will also have.
   */
  #takeEncoded(codec: Codec, frame: ArrayBuffer, how: Move['how'], start: number, end: number): void {
    const { dtype, worldSize } = this.#options;
    const values = this.#floats(start, end);
    if (how === 'copy') return codec.decode(frame, values);
    codec.addTo(values, frame);
    if (how === 'combine') return;
    if (this.#isAverage) divide(values, dtype, worldSize);
    const residual = this.#residualIn(start, end);
    codec.encode(values, frame, residual);
    codec.decode(frame, values);
    // This residual is an error of the average, but the residuals of other ranks are errors of
    // sums. So this residual is multiplied by the number of ranks.
    if (this.#isAverage && residual) for (let i = 0; i < residual.length; i++) residual[i]! *= worldSize;
  }

  #wake(progress: Progress): void {
    if (progress.move.kind === 'send') this.#pump(progress.move.peer);
    else this.#take(progress);
  }

  /** Sends to `peer` all segments that are ready. */
  #pump(peer: number): void {
    const lane = this.#lanes.get(peer)!;
    const { segmentElements } = this.#options;
    while (this.#isStarted && !lane.isBusy) {
      const progress = lane.sends[lane.next];
      if (!progress) return;
      const { move } = progress;
      const start = move.start + progress.done;
      const end = Math.min(start + segmentElements, move.end);
      if (!isClear(progress, start, end)) return;
      const frame = this.#frameOf(progress, start, end);
      this.#advance(progress, end - start);
      if (end === move.end) lane.next += 1;
      lane.isBusy = true;
      this.#busyLanes += 1;
      // One `then` with two callbacks creates one promise. This line runs for each frame, so
      // further promises would cost time.
      this.#options.emit(peer, frame).then(() => this.#sent(lane, peer), this.#options.onfailure);
      for (const next of progress.after) this.#wake(next);
    }
  }

  #sent(lane: Lane, peer: number): void {
    try {
      lane.isBusy = false;
      this.#busyLanes -= 1;
      this.#pump(peer);
      this.#settle();
    } catch (error) {
      this.#options.onfailure(error);
    }
  }

  /** Returns a frame with a segment. If the segment was just received, its frame is reused. */
  #frameOf({ move, done }: Progress, start: number, end: number): ArrayBuffer {
    const { source, dtype, codec, header } = this.#options;
    header.step = move.step;
    header.offset = done;
    if (this.#carriesLengths) header.count = lengthOf(move);
    const taken = this.#taken;
    if (taken?.start === start && taken.end === end && source === this.#options.target) {
      this.#taken = null;
      writeHeader(taken.frame, header);
      if (codec && move.how !== 'copy')
        codec.encode(this.#floats(start, end), taken.frame, this.#residualIn(start, end));
      return taken.frame;
    }
    const frame = createFrame(header, this.#bytesOf(end - start));
    if (codec) {
      // Final values were decoded before, so encoding them again is exact and results in the same
      // bytes.
      codec.encode(this.#floats(start, end), frame, move.how === 'copy' ? null : this.#residualIn(start, end));
    } else {
      copyInto(new dtype.array(frame, FRAME_HEADER_BYTES), view(source, start, end), 0);
    }
    return frame;
  }

  get #isAverage(): boolean {
    return this.descriptor.reduceOp === ReduceOp.AVG;
  }

  /** Returns the number of bytes of a payload. */
  #bytesOf(elements: number): number {
    const { codec, dtype } = this.#options;
    return codec ? codec.bytesOf(elements) : elements * dtype.bytes;
  }

  /** Returns the elements in a frame; not an integer if the frame is not of this op. */
  #elementsOf({ byteLength }: ArrayBuffer): number {
    const { codec, dtype } = this.#options;
    const bytes = byteLength - FRAME_HEADER_BYTES;
    return codec ? codec.elementsOf(bytes) : bytes / dtype.bytes;
  }

  /** Returns a part of the target of an op with a codec, which is float32 and in place. */
  #floats(start: number, end: number): Float32Array {
    return view(this.#options.target as Float32Array, start, end);
  }

  #residualIn(start: number, end: number): Float32Array | null {
    return this.#options.residual?.subarray(start, end) ?? null;
  }

  #advance(progress: Progress, elements: number): void {
    progress.done += elements;
    if (progress.done < lengthOf(progress.move)) return;
    this.#remaining -= 1;
    progress.endedAt = this.#options.now();
    for (const { move, writers } of progress.followers) {
      if (writers.every(({ endedAt }) => endedAt !== null)) this.#options.onturn(move.peer);
    }
  }

  #settle(): void {
    if (this.#isDone || !this.#isStarted || this.#remaining > 0 || this.#busyLanes > 0) return;
    this.#isDone = true;
    this.#options.ondone();
  }
}

function laneOf(lanes: Map<number, Lane>, peer: number): Lane {
  const lane = lanes.get(peer) ?? { sends: [], next: 0, isBusy: false };
  lanes.set(peer, lane);
  return lane;
}

/** Returns one key for a peer and a step. Step numbers have 16 bits in a frame. */
function transferKey(peer: number, step: number): number {
  return peer * 0x10000 + step;
}

function lengthOf({ start, end }: Move): number {
  return end - start;
}

/** Whether all earlier moves are done with elements `start` .. `end`-1. */
function isClear({ before }: Progress, start: number, end: number): boolean {
  // A loop, because a callback would be allocated for each frame.
  for (const { move, done } of before) {
    if (move.end > start && move.start < end && move.start + done < Math.min(end, move.end)) return false;
  }
  return true;
}
