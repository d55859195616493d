/**
 * The binary frame: everything that crosses a link is one 32-byte header and a payload. This file
 * is the whole format; docs/PROTOCOL.md has the same as a table. Little-endian throughout: every
 * WebGPU machine is, and a typed-array view of a payload must not need swapping.
 */
import { ProtocolError } from '../util/errors.ts';

export const FRAME_HEADER_BYTES = 32;
export const FRAME_VERSION = 3;

/**
 * Largest frame, header included: data channels promise 64 KiB messages in every browser (RFC 8841,
 * section 6.1).
 */
export const MAX_FRAME_BYTES = 64 * 1024;
/**
 * Files are distributed in slices of two full frames; the last slice of a file may be shorter, and
 * an empty file has none.
 */
export const SLICE_BYTES = 2 * (MAX_FRAME_BYTES - FRAME_HEADER_BYTES);

/** What a frame is for. */
export const FrameKind = {
  /** First frame on a link: who I am. Payload: JSON. */
  HELLO: 1,
  /** Answer to HELLO: you are whom I expected. */
  HELLO_ACK: 2,
  /** A segment of a collective's data, or of a message's. */
  DATA: 3,
  /** The receiver has issued that op (or posted that receive) too: send all of it. */
  READY: 4,
  /**
   * The sender has issued this op and has no data for the receiver: it only says which op it is.
   */
  CALL: 5,
  /** Something all ranks should hear; whoever gets it passes it on. Payload: JSON. */
  FLOOD: 6,
} as const;
export type FrameKind = (typeof FrameKind)[keyof typeof FrameKind];

/** Which collective a frame belongs to; SEND is a point-to-point message. */
export const OpCode = {
  NONE: 0,
  ALL_REDUCE: 1,
  BROADCAST: 2,
  ALL_GATHER: 3,
  BARRIER: 4,
  REDUCE: 5,
  GATHER: 6,
  SCATTER: 7,
  REDUCE_SCATTER: 8,
  ALL_TO_ALL: 9,
  SEND: 10,
} as const;
export type OpCode = (typeof OpCode)[keyof typeof OpCode];

export const DtypeCode = {
  NONE: 0,
  FLOAT32: 1,
  FLOAT64: 2,
  INT32: 3,
  UINT32: 4,
  INT8: 5,
  UINT8: 6,
  INT64: 7,
  UINT64: 8,
  FLOAT16: 9,
  /** An all-reduce's float32 values, encoded on their way (`collectives/codecs.ts`). */
  FLOAT32_AS_FLOAT16: 10,
  FLOAT32_AS_INT8: 11,
} as const;
export type DtypeCode = (typeof DtypeCode)[keyof typeof DtypeCode];

/**
 * How a reduction combines values, as torch.distributed.ReduceOp. AVG is the sum divided by the
 * world size; PREMUL_SUM multiplies each rank's values by its factor first; BAND, BOR and BXOR work
 * on integers.
 */
export const ReduceOp = {
  NONE: 0,
  SUM: 1,
  AVG: 2,
  PRODUCT: 3,
  MIN: 4,
  MAX: 5,
  BAND: 6,
  BOR: 7,
  BXOR: 8,
  PREMUL_SUM: 9,
} as const;
export type ReduceOp = (typeof ReduceOp)[keyof typeof ReduceOp];

/** Who sends what to whom in which order; `collectives/plans.ts` has each. */
export const Algorithm = {
  NONE: 0,
  RING: 1,
  HALVING_DOUBLING: 2,
  DOUBLING: 3,
  TREE: 4,
  DIRECT: 5,
  TWO_LEVEL: 6,
} as const;
export type Algorithm = (typeof Algorithm)[keyof typeof Algorithm];

export interface FrameHeader {
  kind: FrameKind;
  op: OpCode;
  dtype: DtypeCode;
  reduceOp: ReduceOp;
  algorithm: Algorithm;
  /** The algorithm's step: with the sender it names the transfer that the segment is part of. */
  step: number;
  /** Membership generation; frames of another generation are dropped. */
  generation: number;
  /** Process group of that generation; 0 is the world. */
  group: number;
  /**
   * The op's sequence number in its group, the same on every rank; of a message, its number from
   * sender to receiver.
   */
  seq: number;
  /**
   * A gradient bucket's number, a digest of what sizes a collective's parts have, or a message's
   * tag.
   */
  tag: number;
  /** Root rank in the group, of an op that has one; 0 elsewhere. */
  root: number;
  /** Where the segment starts in its transfer, elements. */
  offset: number;
  /**
   * Elements of the op's whole tensor, in an all-to-all those of the transfer; with `op`, `dtype`,
   * `reduceOp`, `algorithm`, `root` and `tag` it shows ranks that disagree.
   */
  count: number;
}

/** The header of a frame that carries no data. */
export function emptyHeader(kind: FrameKind, generation: number): FrameHeader {
  return {
    kind,
    generation,
    op: OpCode.NONE,
    dtype: DtypeCode.NONE,
    reduceOp: ReduceOp.NONE,
    algorithm: Algorithm.NONE,
    step: 0,
    group: 0,
    seq: 0,
    tag: 0,
    root: 0,
    offset: 0,
    count: 0,
  };
}

// Named offsets, bytes.
const VERSION_AT = 0;
const KIND_AT = 1;
const OP_AT = 2;
const DTYPE_AT = 3;
const REDUCE_OP_AT = 4;
const ALGORITHM_AT = 5;
const STEP_AT = 6;
const GENERATION_AT = 8;
const SEQ_AT = 12;
const TAG_AT = 16;
const ROOT_AT = 18;
const OFFSET_AT = 20;
const COUNT_AT = 24;
const GROUP_AT = 28;
const LENGTH_AT = 30;

/** A frame with room for `payloadBytes`, header written, payload zero. */
export function createFrame(header: FrameHeader, payloadBytes: number): ArrayBuffer {
  const frame = new ArrayBuffer(FRAME_HEADER_BYTES + payloadBytes);
  writeHeader(frame, header);
  return frame;
}

/**
 * Overwrites the header of a frame: a ring forwards what it received under the next hop's header.
 */
export function writeHeader(frame: ArrayBuffer, header: FrameHeader): void {
  const view = new DataView(frame, 0, FRAME_HEADER_BYTES);
  view.setUint8(VERSION_AT, FRAME_VERSION);
  view.setUint8(KIND_AT, header.kind);
  view.setUint8(OP_AT, header.op);
  view.setUint8(DTYPE_AT, header.dtype);
  view.setUint8(REDUCE_OP_AT, header.reduceOp);
  view.setUint8(ALGORITHM_AT, header.algorithm);
  view.setUint16(STEP_AT, header.step, true);
  view.setUint32(GENERATION_AT, header.generation, true);
  view.setUint32(SEQ_AT, header.seq, true);
  view.setUint16(TAG_AT, header.tag, true);
  view.setUint16(ROOT_AT, header.root, true);
  view.setUint32(OFFSET_AT, header.offset, true);
  view.setUint32(COUNT_AT, header.count, true);
  view.setUint16(GROUP_AT, header.group, true);
  view.setUint16(LENGTH_AT, frame.byteLength - FRAME_HEADER_BYTES, true);
}

/**
 * A frame's generation alone, for who passes frames on to whoever reads the rest.
 *
 * @throws ProtocolError where the bytes are too few for a frame.
 */
export function generationOf(frame: ArrayBuffer): number {
  checkHeaderSize(frame);
  return new DataView(frame).getUint32(GENERATION_AT, true);
}

function checkHeaderSize(frame: ArrayBuffer): void {
  if (frame.byteLength >= FRAME_HEADER_BYTES) return;
  throw new ProtocolError(`A frame of ${frame.byteLength} bytes is shorter than its header (${FRAME_HEADER_BYTES}).`);
}

const KINDS: ReadonlySet<number> = new Set(Object.values(FrameKind));

/**
 * Reads a frame's header.
 *
 * @throws ProtocolError where the bytes are not a whole frame of this version.
 */
export function readHeader(frame: ArrayBuffer): FrameHeader {
  checkHeaderSize(frame);
  const view = new DataView(frame, 0, FRAME_HEADER_BYTES);
  const version = view.getUint8(VERSION_AT);
  if (version !== FRAME_VERSION) {
    throw new ProtocolError(`A frame is of version ${version}, this page speaks ${FRAME_VERSION}: reload both pages.`);
  }
  const kind = view.getUint8(KIND_AT);
  if (!KINDS.has(kind)) throw new ProtocolError(`A frame is of unknown kind ${kind}.`);
  const length = view.getUint16(LENGTH_AT, true);
  if (length !== frame.byteLength - FRAME_HEADER_BYTES) {
    throw new ProtocolError(`A frame says ${length} payload bytes and holds ${frame.byteLength - FRAME_HEADER_BYTES}.`);
  }
  return {
    kind: kind as FrameKind,
    op: view.getUint8(OP_AT) as OpCode,
    dtype: view.getUint8(DTYPE_AT) as DtypeCode,
    reduceOp: view.getUint8(REDUCE_OP_AT) as ReduceOp,
    algorithm: view.getUint8(ALGORITHM_AT) as Algorithm,
    step: view.getUint16(STEP_AT, true),
    generation: view.getUint32(GENERATION_AT, true),
    seq: view.getUint32(SEQ_AT, true),
    tag: view.getUint16(TAG_AT, true),
    root: view.getUint16(ROOT_AT, true),
    offset: view.getUint32(OFFSET_AT, true),
    count: view.getUint32(COUNT_AT, true),
    group: view.getUint16(GROUP_AT, true),
  };
}

/** JSON payload of a control frame (HELLO, FLOOD). */
export function encodeJsonFrame(header: FrameHeader, value: unknown): ArrayBuffer {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  const frame = createFrame(header, bytes.byteLength);
  new Uint8Array(frame, FRAME_HEADER_BYTES).set(bytes);
  return frame;
}

/** The JSON payload of a control frame, unchecked. @throws ProtocolError where it is not JSON. */
export function decodeJsonFrame(frame: ArrayBuffer): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(new Uint8Array(frame, FRAME_HEADER_BYTES)));
  } catch {
    throw new ProtocolError('A control frame did not hold JSON.');
  }
}
