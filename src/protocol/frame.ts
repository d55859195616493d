/**
 * The binary frame: everything that crosses a link has a 32-byte header and a payload. This file
 * defines the whole format; docs/PROTOCOL.md shows it in a table. All numbers are little-endian, as
 * on every machine with WebGPU, so typed arrays can read a payload without byte swapping.
 */
import { ProtocolError } from '../util/errors.ts';

export const FRAME_HEADER_BYTES = 32;
export const FRAME_VERSION = 5;

/**
 * The largest frame, header included. Data channels accept messages of 64 KiB in every browser (RFC
 * 8841, section 6.1).
 */
export const MAX_FRAME_BYTES = 64 * 1024;
/**
 * Files are distributed in slices of two full frames. The last slice of a file may be shorter; an
 * empty file has no slices.
 */
export const FILE_SLICE_BYTES = 2 * (MAX_FRAME_BYTES - FRAME_HEADER_BYTES);

export const FrameKind = {
  /** First frame on a link: identifies the sender. Payload: JSON. */
  HELLO: 1,
  /**
   * Answer to HELLO: the receiver confirms that the sender of HELLO is the rank that it expects.
   */
  HELLO_ACK: 2,
  /** A segment of the data of a collective or a message. */
  DATA: 3,
  /**
   * The sender of READY has issued the same op (or posted the receive), so the other rank may send
   * all of its data.
   */
  READY: 4,
  /**
   * The sender, and the ranks behind it that `step` covers, have issued the op; see
   * `collectives/diagnostics/agreement.ts`. The frame has no payload.
   */
  CALL: 5,
  /** Information for all ranks; each rank forwards it. Payload: JSON. */
  FLOOD: 6,
} as const;
export type FrameKind = (typeof FrameKind)[keyof typeof FrameKind];

/** The collective that a frame belongs to; SEND is a point-to-point message. */
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
  /** float32 values of an all-reduce, encoded by a codec (`collectives/codecs.ts`). */
  FLOAT32_AS_FLOAT16: 10,
  FLOAT32_AS_INT8: 11,
} as const;
export type DtypeCode = (typeof DtypeCode)[keyof typeof DtypeCode];

/**
 * Reduction operators, like torch.distributed.ReduceOp. AVG is the sum divided by the world size;
 * PREMUL_SUM first multiplies the values of each rank by the factor of that rank; BAND, BOR and
 * BXOR need integers.
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

/** Algorithms of collectives. `collectives/plans/algorithms.ts` lists their plans. */
export const AlgorithmCode = {
  NONE: 0,
  RING: 1,
  HALVING_DOUBLING: 2,
  DOUBLING: 3,
  TREE: 4,
  DIRECT: 5,
  TWO_LEVEL: 6,
} as const;
export type AlgorithmCode = (typeof AlgorithmCode)[keyof typeof AlgorithmCode];

export interface FrameHeader {
  kind: FrameKind;
  op: OpCode;
  dtype: DtypeCode;
  reduceOp: ReduceOp;
  algorithm: AlgorithmCode;
  /**
   * The algorithm's step. In DATA frames, step and sender identify the transfer to which the
   * segment belongs. CALL and FLOOD use this field for other numbers, see docs/PROTOCOL.md.
   */
  step: number;
  /** Membership generation; frames of another generation are dropped. */
  generation: number;
  /** Process group of that generation; 0 is the world. */
  group: number;
  /**
   * The op's sequence number in its group, the same on every rank. Messages are numbered per sender
   * and receiver.
   */
  seq: number;
  /** The number of a gradient bucket, a digest of a collective's part sizes, or a message's tag. */
  tag: number;
  /** Root rank in the group; 0 for ops without a root. */
  root: number;
  /** Offset of the segment in its transfer, in elements. */
  offset: number;
  /**
   * Number of elements in the op's whole tensor; for an all-to-all, in the transfer. Ranks compare
   * this number and `op`, `dtype`, `reduceOp`, `algorithm`, `root` and `tag`, to detect that they
   * issued different ops.
   */
  count: number;
}

export function emptyFrameHeader(kind: FrameKind, generation: number): FrameHeader {
  return {
    kind,
    generation,
    op: OpCode.NONE,
    dtype: DtypeCode.NONE,
    reduceOp: ReduceOp.NONE,
    algorithm: AlgorithmCode.NONE,
    step: 0,
    group: 0,
    seq: 0,
    tag: 0,
    root: 0,
    offset: 0,
    count: 0,
  };
}

// Offsets of the header's fields, in bytes.
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
const NUMBER_AT = 30;

/** Creates a frame with the header and a zeroed payload of `payloadBytes`. */
export function createFrame(header: FrameHeader, payloadBytes: number): ArrayBuffer {
  const frame = new ArrayBuffer(FRAME_HEADER_BYTES + payloadBytes);
  writeFrameHeader(frame, header);
  return frame;
}

/**
 * Overwrites the header of a frame. A rank in a ring forwards a received payload in the same frame,
 * with a header for the next hop.
 */
export function writeFrameHeader(frame: ArrayBuffer, header: FrameHeader): void {
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
  view.setUint16(NUMBER_AT, 0, true);
}

/**
 * Reads only the generation of a frame.
 *
 * @throws ProtocolError if the frame is shorter than a header.
 */
export function generationOfFrame(frame: ArrayBuffer): number {
  checkHeaderSize(frame);
  return new DataView(frame).getUint32(GENERATION_AT, true);
}

/** Whether a frame belongs to the handshake of a generation. */
export function isHandshakeFrame(frame: ArrayBuffer): boolean {
  const kind = new Uint8Array(frame)[KIND_AT];
  return kind === FrameKind.HELLO || kind === FrameKind.HELLO_ACK;
}

function checkHeaderSize(frame: ArrayBuffer): void {
  if (frame.byteLength >= FRAME_HEADER_BYTES) return;
  throw new ProtocolError(`A frame of ${frame.byteLength} bytes is shorter than its header (${FRAME_HEADER_BYTES}).`);
}

/** Frame numbers are below this number. After the highest number, they begin at 0 again. */
export const FRAME_NUMBER_LIMIT = 2 ** 16;

/** Returns a frame's number on its link, by which frames of several connections are ordered. */
export function frameNumberOf(frame: ArrayBuffer): number {
  checkHeaderSize(frame);
  return new DataView(frame).getUint16(NUMBER_AT, true);
}

/** Sets the number of a frame on its link. */
export function writeFrameNumber(frame: ArrayBuffer, number: number): void {
  checkHeaderSize(frame);
  new DataView(frame).setUint16(NUMBER_AT, number % FRAME_NUMBER_LIMIT, true);
}

const KINDS: ReadonlySet<number> = new Set(Object.values(FrameKind));

/**
 * Reads a frame's header.
 *
 * @throws ProtocolError if the bytes are not a complete frame of this version.
 */
export function readFrameHeader(frame: ArrayBuffer): FrameHeader {
  checkHeaderSize(frame);
  const view = new DataView(frame, 0, FRAME_HEADER_BYTES);
  const version = view.getUint8(VERSION_AT);
  if (version !== FRAME_VERSION) {
    throw new ProtocolError(
      `A frame has version ${version}, but this page supports ${FRAME_VERSION}: reload both pages.`,
    );
  }
  const kind = view.getUint8(KIND_AT);
  if (!KINDS.has(kind)) throw new ProtocolError(`A frame has the unknown kind ${kind}.`);
  return {
    kind: kind as FrameKind,
    op: view.getUint8(OP_AT) as OpCode,
    dtype: view.getUint8(DTYPE_AT) as DtypeCode,
    reduceOp: view.getUint8(REDUCE_OP_AT) as ReduceOp,
    algorithm: view.getUint8(ALGORITHM_AT) as AlgorithmCode,
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

/** Encodes a JSON payload as a control frame (HELLO, FLOOD). */
export function encodeJsonFrame(header: FrameHeader, value: unknown): ArrayBuffer {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  const frame = createFrame(header, bytes.byteLength);
  new Uint8Array(frame, FRAME_HEADER_BYTES).set(bytes);
  return frame;
}

/**
 * Decodes the JSON payload of a control frame without validating it. @throws ProtocolError if it is
 * not JSON.
 */
export function decodeJsonFrame(frame: ArrayBuffer): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(new Uint8Array(frame, FRAME_HEADER_BYTES)));
  } catch {
    throw new ProtocolError('The payload of a control frame is not JSON.');
  }
}
