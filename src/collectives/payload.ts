/**
 * The values of one collective: writes segments of the op's arrays to frames, and combines or
 * copies segments from frames into the arrays. With a codec, frames have encoded values.
 */
import {
  AlgorithmCode,
  createFrame,
  FRAME_HEADER_BYTES,
  ReduceOp,
  writeFrameHeader,
  type FrameHeader,
} from '../protocol/frame.ts';
import type { Codec, ReductionEncoding } from './codecs.ts';
import type { CollectiveOpDescriptor } from './diagnostics/descriptor.ts';
import { copyElements, maxSegmentElements, tensorView, type Dtype, type TypedArray } from './dtypes.ts';
import type { PlanMove } from './plans/plans.ts';
import { divideFloats, reduceFunctionFor, unifyNaNs, type ReduceFunction } from './reduce.ts';

/** The arrays of a collective, and how its values are sent. */
export interface CollectiveArrays {
  descriptor: CollectiveOpDescriptor;
  dtype: Dtype;
  /** Array with the data to send; the same as `target` if a collective works in place. */
  source: TypedArray;
  /** Array for the received data. */
  target: TypedArray;
  encoding?: ReductionEncoding;
}

/** A received segment. Its frame may be sent to another rank. */
interface Segment {
  frame: ArrayBuffer;
  start: number;
  end: number;
}

export class CollectivePayload {
  readonly #values: CollectiveArrays;
  readonly #worldSize: number;
  readonly #segmentElements: number;
  readonly #combine: ReduceFunction | null;
  readonly #codec: Codec | null;
  readonly #isAverage: boolean;

  /** @throws UsageError if the dtype does not support the reduction. */
  constructor(values: CollectiveArrays, worldSize: number, segmentElements: number) {
    const { descriptor, dtype, encoding } = values;
    this.#values = values;
    this.#worldSize = worldSize;
    this.#codec = encoding?.codec ?? null;
    this.#segmentElements = Math.min(segmentElements, this.#codec?.maxSegment ?? maxSegmentElements(dtype));
    this.#combine = descriptor.reduceOp === ReduceOp.NONE ? null : reduceFunctionFor(dtype, descriptor.reduceOp);
    this.#isAverage = descriptor.reduceOp === ReduceOp.AVG;
  }

  /** Returns the number of bytes that `elements` elements need in frames. */
  bytesOf(elements: number): number {
    return this.#codec?.bytesOf(elements) ?? elements * this.#values.dtype.bytes;
  }

  /**
   * Returns the number of elements in a frame. The result is NaN or a fraction if no frame of this
   * op has the frame's size.
   */
  elementsOf({ byteLength }: ArrayBuffer): number {
    const bytes = byteLength - FRAME_HEADER_BYTES;
    return this.#codec?.elementsOf(bytes) ?? bytes / this.#values.dtype.bytes;
  }

  /** Returns the end of the segment that begins at `start`. The segment is part of a send. */
  segmentEnd({ how, end }: PlanMove, start: number): number {
    const { encoding } = this.#values;
    const last = Math.min(start + this.#segmentElements, end);
    if (!encoding || how !== 'copy') return last;
    const edge = encoding.chunks.find((chunk) => chunk > start)!;
    return Math.min(last, edge);
  }

  /** Combines or copies a segment; combined values are also written to its frame. */
  take(frame: ArrayBuffer, how: PlanMove['how'], start: number, end: number): void {
    if (this.#codec) this.#takeEncoded(this.#codec, frame, how, start, end);
    else this.#takePlain(frame, how, start);
  }

  /**
   * Returns a frame with a segment.
   *
   * @param taken the segment that was received last. If it is the segment to send, its frame is
   *   reused.
   */
  frameOf(header: FrameHeader, how: PlanMove['how'], start: number, end: number, taken: Segment | null): ArrayBuffer {
    const { source, target, dtype } = this.#values;
    const codec = this.#codec;
    if (taken?.start === start && taken.end === end && source === target) {
      writeFrameHeader(taken.frame, header);
      if (codec && how !== 'copy') codec.encode(this.#floats(start, end), taken.frame, this.#residualIn(start, end));
      return taken.frame;
    }
    const frame = createFrame(header, this.bytesOf(end - start));
    if (codec) {
      // Final values were decoded before, so encoding them again is exact and results in the same
      // bytes.
      codec.encode(this.#floats(start, end), frame, how === 'copy' ? null : this.#residualIn(start, end));
    } else {
      copyElements(new dtype.array(frame, FRAME_HEADER_BYTES), tensorView(source, start, end), 0);
    }
    return frame;
  }

  #takePlain(frame: ArrayBuffer, how: PlanMove['how'], start: number): void {
    const { descriptor, dtype, target } = this.#values;
    const values = new dtype.array(frame, FRAME_HEADER_BYTES);
    if (how !== 'copy') {
      this.#combine!(values, target, start);
      if (how === 'combine-last' && this.#isAverage) divideFloats(values, dtype, this.#worldSize);
      // In recursive doubling, every rank combines the last two parts itself. Without this call,
      // the ranks could have NaNs with different bits. In other algorithms, one rank combines the
      // parts and the others copy the result.
      if (how === 'combine-last' && descriptor.algorithm === AlgorithmCode.DOUBLING) unifyNaNs(values, dtype);
    }
    copyElements(target, values, start);
  }

  /**
   * Combines or copies an encoded segment. A final sum is encoded in the frame. The target then
   * receives the decoded values, which all other ranks will also have.
   */
  #takeEncoded(codec: Codec, frame: ArrayBuffer, how: PlanMove['how'], start: number, end: number): void {
    const values = this.#floats(start, end);
    if (how === 'copy') return codec.decode(frame, values);
    codec.addTo(values, frame);
    if (how === 'combine') return;
    if (this.#isAverage) divideFloats(values, this.#values.dtype, this.#worldSize);
    const residual = this.#residualIn(start, end);
    codec.encode(values, frame, residual);
    codec.decode(frame, values);
    // This residual is an error of the average, but the residuals of other ranks are errors of
    // sums. So this residual is multiplied by the number of ranks.
    if (this.#isAverage && residual) for (let i = 0; i < residual.length; i++) residual[i]! *= this.#worldSize;
  }

  /**
   * Returns elements `start` .. `end`-1 of the target. Only for an op with a codec: its target is a
   * Float32Array, and is also its source.
   */
  #floats(start: number, end: number): Float32Array {
    return tensorView(this.#values.target as Float32Array, start, end);
  }

  #residualIn(start: number, end: number): Float32Array | null {
    return this.#values.encoding?.residual?.subarray(start, end) ?? null;
  }
}
