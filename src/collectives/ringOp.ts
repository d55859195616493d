/**
 * What the ring collectives share: one op's descriptor, cutting data into segments, forwarding received frames to the
 * right neighbour, and counting what has arrived. An op is driven by arriving frames; it never waits for a step to end
 * before it forwards, so segments of one chunk travel while others are summed.
 */
import {
  createFrame,
  DtypeCode,
  FRAME_HEADER_BYTES,
  FrameKind,
  OpCode,
  writeHeader,
  type FrameHeader,
  type Phase,
  type ReduceOp,
} from '../protocol/frame.ts';
import { modulo } from './ringPlan.ts';
import type { OpTrace } from './work.ts';
import { MismatchError, ProtocolError } from '../util/errors.ts';

/** What every rank must say the same of an op. */
export interface OpDescriptor {
  op: OpCode;
  reduceOp: ReduceOp;
  /** Of a broadcast; 0 elsewhere. */
  root: number;
  /** Elements of the op's whole tensor; for all-gather, of all ranks' parts together. */
  count: number;
}

export interface OpEnvironment {
  readonly rank: number;
  readonly worldSize: number;
  readonly epoch: number;
  readonly seq: number;
  readonly bucket: number;
  readonly segmentElements: number;
  /** Hands a frame to the right neighbour. Resolves when the link wants more. */
  emit(frame: ArrayBuffer): Promise<void>;
  now(): number;
}

/** A received or expected part of an op: `received` of `expected` elements in ring step `ringStep`. */
interface Progress {
  expected: number;
  received: number;
}

const OP_NAMES: Record<OpCode, string> = {
  [OpCode.NONE]: 'none',
  [OpCode.ALL_REDUCE]: 'allReduce',
  [OpCode.BROADCAST]: 'broadcast',
  [OpCode.ALL_GATHER]: 'allGather',
  [OpCode.BARRIER]: 'barrier',
};

const REDUCE_OP_NAMES = ['', ', SUM', ', AVG'];

/** `allReduce(25450 float32, SUM)`. */
export function describeOp({ op, reduceOp, root, count }: OpDescriptor): string {
  const name = OP_NAMES[op] ?? `unknown op ${op}`;
  if (op === OpCode.BARRIER) return 'barrier()';
  const from = op === OpCode.BROADCAST ? ` from rank ${root}` : '';
  return `${name}(${count} float32${from}${REDUCE_OP_NAMES[reduceOp] ?? ''})`;
}

export abstract class RingOp {
  readonly descriptor: OpDescriptor;
  protected readonly env: OpEnvironment;
  /** By ring step: what must come from the left neighbour. */
  readonly #progress: Progress[];
  #remaining: number;
  #started = false;

  /** @param expected elements to receive in each ring step. */
  constructor(descriptor: OpDescriptor, env: OpEnvironment, expected: readonly number[]) {
    this.descriptor = descriptor;
    this.env = env;
    this.#progress = expected.map((elements) => ({ expected: elements, received: 0 }));
    this.#remaining = expected.reduce((sum, elements) => sum + elements, 0);
  }

  /** Sends what this rank contributes before it has heard anything. */
  protected abstract contribute(): Promise<void>;
  /** Takes `values`, which start at element `offset` of the op's tensor, and forwards `frame` where it has to go on. */
  protected abstract take(header: FrameHeader, values: Float32Array<ArrayBuffer>, frame: ArrayBuffer): void;
  /** The rank whose data this rank receives in `ringStep`, as it comes round the ring. */
  protected abstract originOf(ringStep: number): number;
  /** The ring step a frame belongs to, by its phase and hop. */
  protected abstract ringStepOf(header: FrameHeader): number;

  async start(): Promise<void> {
    await this.contribute();
    this.#started = true;
  }

  /** All sent and all received. */
  get isDone(): boolean {
    return this.#started && this.#remaining === 0;
  }

  /** When its chunks went and came, where the op keeps that. */
  get trace(): OpTrace | null {
    return null;
  }

  /** What has not come, for a timeout: in words, and the ranks it comes from and through, the first one first. */
  missing(): { what: string; ranks: number[] } {
    const step = this.#progress.findIndex(({ expected, received }) => received < expected);
    const { expected, received } = this.#progress[step]!;
    const origin = this.originOf(step);
    const { rank, worldSize } = this.env;
    const ranks = Array.from({ length: modulo(rank - origin, worldSize) }, (_, i) => modulo(origin + i, worldSize));
    const what = `ring step ${step} of ${this.#progress.length}: ${received} of ${expected} elements had come, from rank ${origin}`;
    return { what: ranks.length > 1 ? `${what} by way of ${ranks.slice(1).join(', ')}` : what, ranks };
  }

  /** Takes a DATA frame of this op. @throws MismatchError, ProtocolError */
  receive(header: FrameHeader, frame: ArrayBuffer, from: number): void {
    const { rank, epoch, seq, worldSize } = this.env;
    const theirs: OpDescriptor = header;
    const mine = this.descriptor;
    if (
      theirs.op !== mine.op ||
      theirs.reduceOp !== mine.reduceOp ||
      theirs.root !== mine.root ||
      theirs.count !== mine.count ||
      header.dtype !== DtypeCode.FLOAT32
    ) {
      throw new MismatchError(
        `Ranks disagree about collective #${seq}: rank ${rank} called ${describeOp(mine)}, rank ${from} ${describeOp(theirs)}. ` +
          'Every rank must issue the same collectives in the same order.',
        { epoch, rank, worldSize, seq },
      );
    }
    const values = new Float32Array(frame, FRAME_HEADER_BYTES);
    const ringStep = this.ringStepOf(header);
    const progress = this.#progress[ringStep];
    if (
      !progress ||
      progress.received + values.length > progress.expected ||
      header.offset + values.length > mine.count
    ) {
      throw new ProtocolError(
        `Rank ${from} sent ${values.length} elements at ${header.offset} in ring step ${ringStep} of collective #${seq} (${describeOp(mine)}), where they do not belong.`,
        { epoch, rank, seq },
      );
    }
    progress.received += values.length;
    this.#remaining -= values.length;
    this.take(header, values, frame);
    if (progress.received === progress.expected) this.onStepReceived(ringStep);
  }

  /** The last element of `ringStep` has been taken. */
  protected onStepReceived(_ringStep: number): void {}

  /** Sends `values`, which start at element `offset` of the op's tensor, in segments. The values are copied. */
  protected async sendSegments(phase: Phase, values: Float32Array, offset: number): Promise<void> {
    const { segmentElements } = this.env;
    for (let at = 0; at < values.length; at += segmentElements) {
      const segment = values.subarray(at, at + segmentElements);
      const frame = createFrame(this.#header(phase, 0, offset + at), segment.byteLength);
      new Float32Array(frame, FRAME_HEADER_BYTES).set(segment);
      await this.env.emit(frame);
    }
  }

  /** Sends a received frame on under the next hop's header, its payload as it now stands. */
  protected forward(frame: ArrayBuffer, phase: Phase, hop: number, offset: number): void {
    writeHeader(frame, this.#header(phase, hop, offset));
    // Not awaited: what can queue here is bounded by the op's own size, and the left neighbour must not be held up.
    void this.env.emit(frame);
  }

  #header(phase: Phase, hop: number, offset: number): FrameHeader {
    const { epoch, seq, bucket } = this.env;
    return {
      kind: FrameKind.DATA,
      dtype: DtypeCode.FLOAT32,
      phase,
      hop,
      offset,
      epoch,
      seq,
      bucket,
      ...this.descriptor,
    };
  }
}
