import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  AlgorithmCode,
  createFrame,
  decodeJsonFrame,
  DtypeCode,
  emptyFrameHeader,
  encodeJsonFrame,
  FRAME_HEADER_BYTES,
  FRAME_VERSION,
  FrameKind,
  OpCode,
  readFrameHeader,
  writeFrameNumber,
  ReduceOp,
  writeFrameHeader,
  type FrameHeader,
} from '../../src/protocol/frame.ts';
import { ProtocolError } from '../../src/util/errors.ts';

const u16 = fc.nat({ max: 0xffff });
const u32 = fc.nat({ max: 0xffffffff });
const header = fc.record<FrameHeader>({
  kind: fc.constantFrom(...Object.values(FrameKind)),
  op: fc.constantFrom(...Object.values(OpCode)),
  dtype: fc.constantFrom(...Object.values(DtypeCode)),
  reduceOp: fc.constantFrom(...Object.values(ReduceOp)),
  algorithm: fc.constantFrom(...Object.values(AlgorithmCode)),
  step: u16,
  group: u16,
  tag: u16,
  root: u16,
  generation: u32,
  seq: u32,
  offset: u32,
  count: u32,
});

describe('a frame', () => {
  test('contains the header from its creation, or the header that was written into it later', () => {
    fc.assert(
      fc.property(header, header, fc.nat({ max: 200 }), (first, second, bytes) => {
        const frame = createFrame(first, bytes);
        expect(frame.byteLength).toBe(FRAME_HEADER_BYTES + bytes);
        expect(readFrameHeader(frame)).toEqual(first);
        writeFrameHeader(frame, second);
        expect(readFrameHeader(frame)).toEqual(second);
      }),
    );
  });

  test('has the byte layout of docs/PROTOCOL.md', () => {
    const frame = createFrame(
      {
        kind: FrameKind.DATA,
        op: 1,
        dtype: 1,
        reduceOp: 2,
        algorithm: 1,
        step: 0x0102,
        generation: 3,
        seq: 4,
        tag: 5,
        root: 8,
        offset: 6,
        count: 7,
        group: 9,
      },
      4,
    );
    writeFrameNumber(frame, 0x0403);
    expect(Array.from(new Uint8Array(frame, 0, 32))).toEqual([
      5, 3, 1, 1, 2, 1, 0x02, 0x01, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 8, 0, 6, 0, 0, 0, 7, 0, 0, 0, 9, 0, 3, 4,
    ]);
  });

  test('is rejected with ProtocolError if it is truncated or has a different version', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
        try {
          readFrameHeader(bytes.slice().buffer);
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError);
        }
      }),
    );
    const newer = createFrame(emptyFrameHeader(FrameKind.DATA, 1), 0);
    new Uint8Array(newer)[0] = FRAME_VERSION + 1;
    expect(() => readFrameHeader(newer)).toThrow(new RegExp(`version ${FRAME_VERSION + 1}.*reload`));
  });

  test('can contain JSON', () => {
    const frame = encodeJsonFrame(emptyFrameHeader(FrameKind.FLOOD, 1), { message: 'größer' });
    expect(decodeJsonFrame(frame)).toEqual({ message: 'größer' });
    expect(() => decodeJsonFrame(createFrame(emptyFrameHeader(FrameKind.FLOOD, 1), 3))).toThrow(ProtocolError);
  });
});
