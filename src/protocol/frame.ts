/**
 * The binary frame: everything that crosses a link is one 32-byte header and a payload. This file is the whole format;
 * docs/PROTOCOL.md has the same as a table. Little-endian throughout: every WebGPU machine is, and a
 * typed-array view of a payload must not need swapping.
 */
import { ProtocolError } from '../util/errors.ts';

export const FRAME_HEADER_BYTES = 32;
export const FRAME_VERSION = 1;

/** Largest frame, header included: data channels promise 64 KiB messages in every browser (RFC 8841, section 6.1). */
export const MAX_FRAME_BYTES = 64 * 1024;

/** What a frame is for. */
export const FrameKind = {
  /** First frame on a link: who I am. Payload: JSON. */
  HELLO: 1,
  /** Answer to HELLO: you are whom I expected. */
  HELLO_ACK: 2,
  /** A segment of a collective's data. */
  DATA: 3,
  /** The receiver of a collective's data has issued that op too: send all of it. */
  READY: 4,
  /** The sender gave the process group up. Payload: JSON with the reason. */
  ABORT: 5,
} as const;
export type FrameKind = (typeof FrameKind)[keyof typeof FrameKind];

/** Which collective a frame belongs to. */
export const OpCode = { NONE: 0, ALL_REDUCE: 1, BROADCAST: 2, ALL_GATHER: 3, BARRIER: 4 } as const;
export type OpCode = (typeof OpCode)[keyof typeof OpCode];

export const DtypeCode = { NONE: 0, FLOAT32: 1 } as const;
export type DtypeCode = (typeof DtypeCode)[keyof typeof DtypeCode];

/** How values of an all-reduce are combined. */
export const ReduceOp = { NONE: 0, SUM: 1, AVG: 2 } as const;
export type ReduceOp = (typeof ReduceOp)[keyof typeof ReduceOp];

export const Phase = { REDUCE_SCATTER: 0, ALL_GATHER: 1 } as const;
export type Phase = (typeof Phase)[keyof typeof Phase];

export interface FrameHeader {
  kind: FrameKind;
  op: OpCode;
  dtype: DtypeCode;
  reduceOp: ReduceOp;
  phase: Phase;
  /** Membership epoch; frames of another epoch are dropped. */
  epoch: number;
  /** The op's sequence number in its group: the same on every rank. */
  seq: number;
  /** Gradient bucket, for telemetry; 0 outside gradient reduction. Below 65 536. */
  bucket: number;
  /** Root rank of a broadcast, 0 elsewhere. */
  root: number;
  /** How many links the data has crossed before this one, counted per phase. */
  hop: number;
  /** Where the segment starts in the op's whole tensor, elements. */
  offset: number;
  /** Elements of the op's whole tensor; with `op`, `dtype`, `reduceOp` and `root` it shows ranks that disagree. */
  count: number;
}

/** The header of a frame that carries no collective's data. */
export function emptyHeader(kind: FrameKind, epoch: number): FrameHeader {
  return {
    kind,
    epoch,
    op: OpCode.NONE,
    dtype: DtypeCode.NONE,
    reduceOp: ReduceOp.NONE,
    phase: Phase.REDUCE_SCATTER,
    seq: 0,
    bucket: 0,
    root: 0,
    hop: 0,
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
const PHASE_AT = 5;
const HOP_AT = 6;
const EPOCH_AT = 8;
const SEQ_AT = 12;
const BUCKET_AT = 16;
const ROOT_AT = 18;
const OFFSET_AT = 20;
const COUNT_AT = 24;
const LENGTH_AT = 28;

/** A frame with room for `payloadBytes`, header written, payload zero. */
export function createFrame(header: FrameHeader, payloadBytes: number): ArrayBuffer {
  const frame = new ArrayBuffer(FRAME_HEADER_BYTES + payloadBytes);
  writeHeader(frame, header);
  return frame;
}

/** Overwrites the header of a frame: a ring forwards what it received under the next hop's header. */
export function writeHeader(frame: ArrayBuffer, header: FrameHeader): void {
  const view = new DataView(frame, 0, FRAME_HEADER_BYTES);
  view.setUint8(VERSION_AT, FRAME_VERSION);
  view.setUint8(KIND_AT, header.kind);
  view.setUint8(OP_AT, header.op);
  view.setUint8(DTYPE_AT, header.dtype);
  view.setUint8(REDUCE_OP_AT, header.reduceOp);
  view.setUint8(PHASE_AT, header.phase);
  view.setUint16(HOP_AT, header.hop, true);
  view.setUint32(EPOCH_AT, header.epoch, true);
  view.setUint32(SEQ_AT, header.seq, true);
  view.setUint16(BUCKET_AT, header.bucket, true);
  view.setUint16(ROOT_AT, header.root, true);
  view.setUint32(OFFSET_AT, header.offset, true);
  view.setUint32(COUNT_AT, header.count, true);
  view.setUint32(LENGTH_AT, frame.byteLength - FRAME_HEADER_BYTES, true);
}

const KINDS: ReadonlySet<number> = new Set(Object.values(FrameKind));

/**
 * Reads a frame's header.
 *
 * @throws ProtocolError where the bytes are not a whole frame of this version.
 */
export function readHeader(frame: ArrayBuffer): FrameHeader {
  if (frame.byteLength < FRAME_HEADER_BYTES) {
    throw new ProtocolError(`A frame of ${frame.byteLength} bytes is shorter than its header (${FRAME_HEADER_BYTES}).`);
  }
  const view = new DataView(frame, 0, FRAME_HEADER_BYTES);
  const version = view.getUint8(VERSION_AT);
  if (version !== FRAME_VERSION) {
    throw new ProtocolError(`A frame is of version ${version}, this page speaks ${FRAME_VERSION}: reload both pages.`);
  }
  const kind = view.getUint8(KIND_AT);
  if (!KINDS.has(kind)) throw new ProtocolError(`A frame is of unknown kind ${kind}.`);
  const length = view.getUint32(LENGTH_AT, true);
  if (length !== frame.byteLength - FRAME_HEADER_BYTES) {
    throw new ProtocolError(`A frame says ${length} payload bytes and holds ${frame.byteLength - FRAME_HEADER_BYTES}.`);
  }
  return {
    kind: kind as FrameKind,
    op: view.getUint8(OP_AT) as OpCode,
    dtype: view.getUint8(DTYPE_AT) as DtypeCode,
    reduceOp: view.getUint8(REDUCE_OP_AT) as ReduceOp,
    phase: view.getUint8(PHASE_AT) as Phase,
    hop: view.getUint16(HOP_AT, true),
    epoch: view.getUint32(EPOCH_AT, true),
    seq: view.getUint32(SEQ_AT, true),
    bucket: view.getUint16(BUCKET_AT, true),
    root: view.getUint16(ROOT_AT, true),
    offset: view.getUint32(OFFSET_AT, true),
    count: view.getUint32(COUNT_AT, true),
  };
}

/** JSON payload of a control frame (HELLO, ABORT). */
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
