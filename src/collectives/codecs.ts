/**
 * Codecs encode the float32 values of an all-reduce in fewer bytes. At each hop a rank decodes the
 * received values, adds its own in float32 and encodes the sum for the next rank. The owner of a
 * chunk encodes the final sum once and replaces its own values by the decoded values.
 *
 * A codec's rounding is idempotent: decoded values encode to the same bytes again, on every
 * machine. So a finished chunk may be forwarded as received or encoded again, with the same result.
 *
 * Codecs round at each hop. An optional array, `residual`, receives this rank's rounding
 * errors. The caller can add these errors to the values of the next step. This method is error
 * feedback (Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014; Karimireddy et
 * al., "Error Feedback Fixes SignSGD and other Gradient Compression Schemes", ICML 2019).
 */
import type { Displacements } from './plans/plans.ts';
import { DtypeCode, FRAME_HEADER_BYTES, MAX_FRAME_BYTES } from '../protocol/frame.ts';
import type { CollectiveCodecName } from '../spec/codecs.ts';
import { UsageError } from '../util/errors.ts';
import { fromHalf, MIN_HALF_EXPONENT, toHalf } from '../util/float16.ts';

/**
 * Encodes and decodes one segment at a time. Every Float32Array has the segment's length. `frame`
 * consists of a header and the segment's payload.
 */
export interface Codec {
  /** The code that frames have in place of a dtype, and the code's name in error messages. */
  readonly code: DtypeCode;
  readonly dtypeName: string;
  /** Maximum number of elements in a frame. */
  readonly maxSegment: number;
  /** Returns the number of bytes of a payload. */
  bytesOf(elements: number): number;
  /**
   * Returns the number of elements in a payload of `bytes` bytes. The result is NaN or a fraction
   * if no payload has this size.
   */
  elementsOf(bytes: number): number;
  /**
   * @param residual receives `values` minus their decoded values, or 0 if this difference is not
   * finite.
   */
  encode(values: Float32Array, frame: ArrayBuffer, residual: Float32Array | null): void;
  decode(frame: ArrayBuffer, into: Float32Array): void;
  /** Adds the decoded values of `frame` to `into`. */
  addTo(into: Float32Array, frame: ArrayBuffer): void;
}

/** How the values of an all-reduce or a reduce-scatter are encoded. */
export interface ReductionEncoding {
  codec: Codec;
  /** An array of the target's length that receives the residual of what this rank encodes. */
  residual: Float32Array | null;
  /**
   * The parts of the tensor. One rank encodes the final sum of each part. No frame with final sums
   * has elements of two parts. So a rank that encodes decoded sums again has the same segments and
   * produces the same bytes.
   */
  chunks: Displacements;
}

const MAX_PAYLOAD_BYTES = MAX_FRAME_BYTES - FRAME_HEADER_BYTES;
const HALF_BYTES = Uint16Array.BYTES_PER_ELEMENT;
const SCALE_BYTES = Float32Array.BYTES_PER_ELEMENT;

/** Number of mantissa bits that a float32 loses when it becomes a half. */
const DROPPED_HALF_BITS = 13;
const FLOAT_EXPONENT_BIAS = 127;
const FLOAT_MANTISSA_BITS = 23;
/** A segment's largest value is scaled to [2^14, 2^15), so rounding cannot make it infinite. */
const LARGEST_HALF_EXPONENT = 14;

/**
 * Sends half the bytes: values become IEEE binary16, with 11 significant bits. All values of a
 * segment are scaled by one power of two, whose exponent is sent first, as an int16. So the
 * segment's largest value neither overflows nor becomes subnormal, at any magnitude. Values that
 * are more than 2^29 times smaller than the largest value become subnormal halves.
 *
 * A segment with an infinity or a NaN has exponent 0: a NaN stays a NaN, and values of 65520 or
 * more become infinite. The same applies to a segment whose largest value would be rounded to
 * 2^128.
 *
 * The codec does not use Float16Array: not every browser has it, and its NaN bits depend on the
 * browser.
 */
const fp16: Codec = {
  code: DtypeCode.FLOAT32_AS_FLOAT16,
  dtypeName: 'float32 as float16',
  maxSegment: MAX_PAYLOAD_BYTES / HALF_BYTES - 1,
  bytesOf: (elements) => (elements === 0 ? 0 : (1 + elements) * HALF_BYTES),
  elementsOf: (bytes) => (bytes === 0 ? 0 : bytes === HALF_BYTES ? Number.NaN : bytes / HALF_BYTES - 1),
  encode: (values, frame, residual) => {
    if (values.length === 0) return;
    const { exponent, halves } = fp16Views(frame, values.length);
    exponent[0] = sharedExponent(values);
    toHalf(values, halves, exponent[0]);
    if (residual === null) return;
    fromHalf(halves, residual, exponent[0]);
    toResidual(values, residual);
  },
  decode: (frame, into) => {
    if (into.length === 0) return;
    const { exponent, halves } = fp16Views(frame, into.length);
    fromHalf(halves, into, exponent[0]);
  },
  addTo: (into, frame) => {
    const values = scratch.subarray(0, into.length);
    fp16.decode(frame, values);
    for (let i = 0; i < into.length; i++) into[i]! += values[i]!;
  },
};

/**
 * Holds the decoded values of one segment of fp16, because converting and adding are faster in
 * separate loops.
 */
const scratch = new Float32Array(MAX_PAYLOAD_BYTES / HALF_BYTES);

/**
 * Returns the exponent that a segment's values share, so that the largest value becomes a large
 * half. The exponent is computed from the largest value after rounding. So encoding decoded values
 * results in the same exponent again.
 */
function sharedExponent(values: Float32Array): number {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  let largest = 0;
  for (let i = 0; i < bits.length; i++) {
    // The bits of magnitudes are compared as integers: their order is the same, and NaN is the
    // largest.
    const magnitude = bits[i]! & 0x7fffffff;
    if (magnitude > largest) largest = magnitude;
  }
  const half = 1 << (DROPPED_HALF_BITS - 1);
  const isOdd = (largest >>> DROPPED_HALF_BITS) & 1;
  // Rounds to nearest, ties to even, like toHalf.
  const exponent = ((largest + half - 1 + isOdd) >>> FLOAT_MANTISSA_BITS) - FLOAT_EXPONENT_BIAS;
  // The largest value is infinite or NaN, or is rounded to infinity.
  if (exponent > FLOAT_EXPONENT_BIAS) return 0;
  return Math.max(exponent - LARGEST_HALF_EXPONENT, MIN_HALF_EXPONENT);
}

/**
 * Replaces each decoded value by its residual, which is the value minus the decoded value. A
 * residual that is not finite becomes 0, so that later steps do not receive it.
 */
function toResidual(values: Float32Array, decoded: Float32Array): void {
  for (let i = 0; i < values.length; i++) {
    const residual = values[i]! - decoded[i]!;
    decoded[i] = residual - residual === 0 ? residual : 0;
  }
}

/**
 * Number of elements that share a scale in int8. Larger blocks need fewer bytes, but round small
 * values more coarsely if a large value is in the same block. For gradients of the mlp on MNIST,
 * blocks of 32, 128, 512 and a whole segment have errors of 0.6, 0.75, 0.9 and 1.3 % (root mean
 * square) and send 3.56, 3.88, 3.97 and 4.0 times fewer bytes.
 */
export const INT8_BLOCK_ELEMENTS = 128;
const INT8_BLOCK_BYTES = SCALE_BYTES + INT8_BLOCK_ELEMENTS;
const INT8_MAX = 127;
/**
 * Number of mantissa bits that are always zero in a scale. A scale then has 17 significant bits,
 * and the magnitude of an int8 has 7 bits. So their product is exact in float32. Therefore the
 * largest value of a block is decoded to exactly 127 times the scale. Encoding this decoded value
 * again results in the same scale.
 */
const DROPPED_SCALE_BITS = 7;
const DROPPED_SCALE_MASK = (1 << DROPPED_SCALE_BITS) - 1;
/**
 * Adding and then subtracting this number rounds a double to an integer, ties to even, because
 * doubles from 2^52 on are integers.
 */
const ROUND_TO_INTEGER = 1.5 * 2 ** 52;
/**
 * Range of a block's largest magnitude in which the scale is a normal number and 127 times the
 * scale is finite. A block below the range becomes zero. A block above the range becomes NaN.
 */
const SMALLEST = bitsOf(INT8_MAX * 2 ** -126);
const LARGEST = bitsOf(INT8_MAX * 2 ** 120);

/**
 * Sends a quarter of the bytes: values become 8-bit integers. Each block of {@link
 * INT8_BLOCK_ELEMENTS} elements has a float32 scale: the block's largest magnitude divided by 127,
 * rounded up. In a payload, all scales come before the integers. The residual is at most half a
 * scale.
 *
 * A block with a NaN, an infinity or a value beyond 127 * 2^120 becomes NaN as a whole, so that
 * such values stay visible.
 */
const int8: Codec = {
  code: DtypeCode.FLOAT32_AS_INT8,
  dtypeName: 'float32 as int8',
  maxSegment: Math.floor(MAX_PAYLOAD_BYTES / INT8_BLOCK_BYTES) * INT8_BLOCK_ELEMENTS,
  bytesOf: (elements) => elements + blocksOf(elements) * SCALE_BYTES,
  elementsOf: (bytes) => {
    const elements = bytes - Math.ceil(bytes / INT8_BLOCK_BYTES) * SCALE_BYTES;
    return elements >= 0 && int8.bytesOf(elements) === bytes ? elements : Number.NaN;
  },
  encode: (values, frame, residual) => {
    const { length } = values;
    const bits = new Uint32Array(values.buffer, values.byteOffset, length);
    const { scales, scaleBits, levels } = int8Views(frame, length);
    for (let block = 0, start = 0; start < length; block++, start += INT8_BLOCK_ELEMENTS) {
      const end = Math.min(start + INT8_BLOCK_ELEMENTS, length);
      let largest = 0;
      for (let i = start; i < end; i++) {
        // The bits of magnitudes are compared as integers: their order is the same, and NaN is the
        // largest.
        const magnitude = bits[i]! & 0x7fffffff;
        if (magnitude > largest) largest = magnitude;
      }
      if (largest < SMALLEST || largest > LARGEST) {
        scales[block] = largest < SMALLEST ? 0 : Number.NaN;
        levels.fill(0, start, end);
      } else {
        scaleBits[block] = largest;
        scales[block]! /= INT8_MAX;
        scaleBits[block] = (scaleBits[block]! + DROPPED_SCALE_MASK) & ~DROPPED_SCALE_MASK;
        const perScale = 1 / scales[block]!;
        for (let i = start; i < end; i++) levels[i] = values[i]! * perScale + ROUND_TO_INTEGER - ROUND_TO_INTEGER;
      }
      if (residual === null) continue;
      const scale = scales[block]!;
      // A NaN block leaves no residual.
      if (Number.isNaN(scale)) residual.fill(0, start, end);
      else for (let i = start; i < end; i++) residual[i] = values[i]! - levels[i]! * scale;
    }
  },
  decode: (frame, into) => {
    const { length } = into;
    const { scales, levels } = int8Views(frame, length);
    for (let block = 0, start = 0; start < length; block++, start += INT8_BLOCK_ELEMENTS) {
      const end = Math.min(start + INT8_BLOCK_ELEMENTS, length);
      const scale = scales[block]!;
      for (let i = start; i < end; i++) into[i] = levels[i]! * scale;
    }
  },
  addTo: (into, frame) => {
    const { length } = into;
    const { scales, levels } = int8Views(frame, length);
    for (let block = 0, start = 0; start < length; block++, start += INT8_BLOCK_ELEMENTS) {
      const end = Math.min(start + INT8_BLOCK_ELEMENTS, length);
      const scale = scales[block]!;
      for (let i = start; i < end; i++) into[i]! += levels[i]! * scale;
    }
  },
};

const CODECS: Record<CollectiveCodecName, Codec | null> = { fp32: null, fp16, int8 };

/** Returns the codec, or `null` for `fp32`. @throws UsageError for an unknown name. */
export function codecByName(name: CollectiveCodecName): Codec | null {
  if (Object.hasOwn(CODECS, name)) return CODECS[name];
  throw new UsageError(`There is no codec "${name}". Use one of these: ${Object.keys(CODECS).join(', ')}.`);
}

/** Returns the name of encoded values with this code; `null` if no codec has the code. */
export function encodedDtypeName(code: DtypeCode): string | null {
  return Object.values(CODECS).find((codec) => codec?.code === code)?.dtypeName ?? null;
}

/**
 * Returns the number of bytes of `elements` float32 values: encoded, or as they are if `codec` is
 * `null`.
 */
export function encodedBytes(codec: Codec | null, elements: number): number {
  return codec?.bytesOf(elements) ?? elements * Float32Array.BYTES_PER_ELEMENT;
}

function fp16Views(frame: ArrayBuffer, length: number) {
  return {
    exponent: new Int16Array(frame, FRAME_HEADER_BYTES, 1),
    halves: new Uint16Array(frame, FRAME_HEADER_BYTES + HALF_BYTES, length),
  };
}

function blocksOf(elements: number): number {
  return Math.ceil(elements / INT8_BLOCK_ELEMENTS);
}

function int8Views(frame: ArrayBuffer, length: number) {
  const blocks = blocksOf(length);
  return {
    scales: new Float32Array(frame, FRAME_HEADER_BYTES, blocks),
    scaleBits: new Uint32Array(frame, FRAME_HEADER_BYTES, blocks),
    levels: new Int8Array(frame, FRAME_HEADER_BYTES + blocks * SCALE_BYTES, length),
  };
}

/** Returns the bits of a float32 as an integer. */
function bitsOf(value: number): number {
  return new Uint32Array(Float32Array.of(value).buffer)[0]!;
}
