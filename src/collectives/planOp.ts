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
import type { Codec, Encoding } from './codecs.ts';
import type { OpDescriptor } from './diagnostics/descriptor.ts';
import {
  createProgress,
  isClear,
  laneOf,
  lengthOf,
  transferKey,
  type Lane,
  type Progress,
} from './plans/moveProgress.ts';
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
  encoding: Encoding | null;
  worldSize: number;
  segmentElements: number;
  /** The header of the op's DATA frames. The op owns it and writes each segment's fields to it. */
  header: FrameHeader;
  /** Sends a frame to a rank. Resolves when that rank accepts more; rejects if the op must stop. */
  emit: (peer: number, frame: ArrayBuffer) => Promise<void>;
  /**
   * Called if `emit` rejects, or if an error occurs after `emit` has resolved. Errors in `start`
   * and `receive` are thrown instead.
   */
  onfailure: (error: unknown) => void;
  /** Called when a frame of the op has arrived or left. */
  onmoved: () => void;
  /**
   * Called for each receive as soon as all earlier receives into the same elements are done; in
   * `start` if there are none.
   */
  onturn: (peer: number) => void;
  /** Called once, when everything is sent and received. */
  ondone: () => void;
  now: () => number;
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
  /**
   * The segment that was just combined or copied. If the next frame to send has the same elements,
   * this buffer is reused.
   */
  #taken: { frame: ArrayBuffer; start: number; end: number } | null = null;

  /** @throws UsageError if the dtype does not support the reduction. */
  constructor(options: PlanOpOptions) {
    this.#options = options;
    this.descriptor = options.descriptor;
    const { plan, dtype, descriptor, source, target } = options;
    this.#combine = descriptor.reduceOp === ReduceOp.NONE ? null : reducerFor(dtype, descriptor.reduceOp);
    this.#carriesLengths = descriptor.op === OpCode.ALL_TO_ALL;
    const moves = plan.filter((move) => this.#carriesLengths || lengthOf(move) > 0);
    this.#moves = createProgress(moves, source === target);
    this.#remaining = this.#moves.length;
    for (const progress of this.#moves) {
      const { kind, peer, step } = progress.move;
      if (kind === 'receive') this.#receives.set(transferKey(peer, step), progress);
      else laneOf(this.#lanes, peer).sends.push(progress);
    }
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
   * Returns the time at which the send or receive of `step` ended; `null` if it has not ended, or
   * if there is no such send or receive.
   */
  endOf(kind: Move['kind'], step: number): number | null {
    return this.#moves.find(({ move }) => move.kind === kind && move.step === step)?.endedAt ?? null;
  }

  /** Returns the milliseconds that the receive of `step` spent on combining or copying. */
  spentOn(step: number): number {
    return this.#moves.find(({ move }) => move.kind === 'receive' && move.step === step)?.spentMs ?? 0;
  }

  /** Returns the ranks whose data is missing. */
  get missing(): number[] {
    const late = this.#moves.filter(({ move, arrived }) => move.kind === 'receive' && arrived < lengthOf(move));
    return [...new Set(late.map(({ move }) => move.peer))];
  }

  /** Returns the ranks whose links have not accepted a frame of this op yet. */
  get stalled(): number[] {
    return [...this.#lanes].filter(([, { isBusy }]) => isBusy).map(([peer]) => peer);
  }

  /** Returns the bytes of data that have arrived or left, and how many there are in all. */
  amount(kind: Move['kind']): { moved: number; total: number } {
    const moves = this.#moves.filter(({ move }) => move.kind === kind);
    const bytesOf = (elements: (progress: Progress) => number): number =>
      moves.reduce((sum, progress) => sum + this.#bytesOf(elements(progress)), 0);
    return {
      moved: bytesOf(({ arrived, done }) => (kind === 'receive' ? arrived : done)),
      total: bytesOf(({ move }) => lengthOf(move)),
    };
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
    this.#options.onmoved();
    progress.arrived += elements;
    progress.early.push(frame);
    this.#take(progress);
    this.#settle();
  }

  /** Combines all segments that have arrived and whose turn it is. */
  #take(progress: Progress): void {
    const codec = this.#codec;
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
    while (this.#isStarted && !lane.isBusy) {
      const progress = lane.sends[lane.next];
      if (!progress) return;
      const { move } = progress;
      const start = move.start + progress.done;
      const end = this.#segmentEnd(move, start);
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

  /** Returns where the segment that begins at `start` ends. The segment is part of a send. */
  #segmentEnd({ how, end }: Move, start: number): number {
    const { segmentElements, encoding } = this.#options;
    const last = Math.min(start + segmentElements, end);
    if (encoding === null || how !== 'copy') return last;
    const edge = encoding.chunks.find((chunk) => chunk > start)!;
    return Math.min(last, edge);
  }

  #sent(lane: Lane, peer: number): void {
    try {
      this.#options.onmoved();
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
    const { source, dtype, header } = this.#options;
    const codec = this.#codec;
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

  get #codec(): Codec | null {
    return this.#options.encoding?.codec ?? null;
  }

  get #isAverage(): boolean {
    return this.descriptor.reduceOp === ReduceOp.AVG;
  }

  /** Returns the number of bytes of a payload. */
  #bytesOf(elements: number): number {
    return this.#codec?.bytesOf(elements) ?? elements * this.#options.dtype.bytes;
  }

  /**
   * Returns the number of elements in a frame. The result is NaN or a fraction if no frame of this
   * op has the frame's size.
   */
  #elementsOf({ byteLength }: ArrayBuffer): number {
    const bytes = byteLength - FRAME_HEADER_BYTES;
    return this.#codec?.elementsOf(bytes) ?? bytes / this.#options.dtype.bytes;
  }

  /**
   * Returns elements `start` .. `end`-1 of the target. Only for an op with a codec: its target is a
   * Float32Array, and is also its source.
   */
  #floats(start: number, end: number): Float32Array {
    return view(this.#options.target as Float32Array, start, end);
  }

  #residualIn(start: number, end: number): Float32Array | null {
    return this.#options.encoding?.residual?.subarray(start, end) ?? null;
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
