/**
 * Codecs: how the float32 values of an all-reduce travel in fewer bytes. Each hop of the ring
 * decodes what comes, adds its own in float32 and encodes the sum for the next; who owns a chunk
 * encodes it once and takes over what it decodes itself.
 *
 * A codec's rounding is idempotent: what was decoded encodes to the same bytes again, on every
 * machine. So it makes no difference to the bits that ranks end with whether a finished chunk is
 * forwarded as it came or encoded anew.
 *
 * Both lose something at each hop. What this rank residual can be told (`residual`), for who adds
 * it to the next step's values: error feedback (Seide et al., "1-Bit Stochastic Gradient Descent",
 * Interspeech 2014; Karimireddy et al., "Error Feedback Fixes SignSGD and other Gradient
 * Compression Schemes", ICML 2019).
 */
import { DtypeCode, FRAME_HEADER_BYTES, MAX_FRAME_BYTES } from '../protocol/frame.ts';
import type { JobCodec } from '../spec/names.ts';
import { UsageError } from '../util/errors.ts';
import { fromHalf, MIN_HALF_EXPONENT, toHalf } from '../util/float16.ts';

/** How the values of an all-reduce travel: `fp32` is as they are. */
export type CodecName = Exclude<JobCodec, 'powersgd'>;

/**
 * Every array is float32 and as long as a segment; `frame` holds a header and the segment's
 * payload.
 */
export interface Codec {
  /** What frames and messages call the values. */
  readonly code: DtypeCode;
  /** Most elements in a frame. */
  readonly maxSegment: number;
  /** Of a payload of so many elements. */
  bytesOf(elements: number): number;
  /** Elements in a payload; not a whole number where there is no such payload. */
  elementsOf(bytes: number): number;
  /** @param residual takes `values` less what they are decoded to; 0 where that is not finite. */
  encode(values: Float32Array, frame: ArrayBuffer, residual: Float32Array | null): void;
  decode(frame: ArrayBuffer, into: Float32Array): void;
  /** Adds what is decoded. */
  addTo(into: Float32Array, frame: ArrayBuffer): void;
}

const MAX_PAYLOAD_BYTES = MAX_FRAME_BYTES - FRAME_HEADER_BYTES;
const HALF_BYTES = Uint16Array.BYTES_PER_ELEMENT;
const SCALE_BYTES = Float32Array.BYTES_PER_ELEMENT;

/** Bits of mantissa that a float32 has and a half has not. */
const DROPPED_HALF_BITS = 13;
const FLOAT_EXPONENT_BIAS = 127;
const FLOAT_MANTISSA_BITS = 23;
/** A segment's largest value is scaled to [2^14, 2^15), which rounding cannot bring to infinity. */
const LARGEST_HALF_EXPONENT = 14;

/**
 * Half the bytes: IEEE binary16, 11 bits of mantissa. A segment's values share a power of two,
 * whose exponent is an int16 in front of them. So the segment's largest value neither overflows nor
 * loses bits, whatever its magnitude; values 2^28 times smaller become subnormal halves. A segment
 * with an infinity or a NaN has exponent 0: a NaN stays a NaN, and values from 65520 on become
 * infinite. So has a segment whose largest value would be rounded to 2^128. Our own conversion and
 * not Float16Array's, which leaves to the browser what becomes of a NaN's bits, and which not every
 * browser has.
 */
const fp16: Codec = {
  code: DtypeCode.FLOAT32_AS_FLOAT16,
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

/** A segment's worth of decoded halves: conversions and sums run faster apart. */
const scratch = new Float32Array(fp16.maxSegment);

/**
 * The exponent of a segment's largest value after rounding, so that decoded values have the same,
 * relative to a half's.
 */
function sharedExponent(values: Float32Array): number {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  let largest = 0;
  for (let i = 0; i < bits.length; i++) {
    // As whole numbers, magnitudes have the order of their values, and NaN is the largest.
    const magnitude = bits[i]! & 0x7fffffff;
    if (magnitude > largest) largest = magnitude;
  }
  const half = 1 << (DROPPED_HALF_BITS - 1);
  const isOdd = (largest >>> DROPPED_HALF_BITS) & 1;
  // Nearest, ties to even, as toHalf rounds.
  const exponent = ((largest + half - 1 + isOdd) >>> FLOAT_MANTISSA_BITS) - FLOAT_EXPONENT_BIAS;
  // Infinity, NaN, or rounded to infinity.
  if (exponent > FLOAT_EXPONENT_BIAS) return 0;
  return Math.max(exponent - LARGEST_HALF_EXPONENT, MIN_HALF_EXPONENT);
}

/**
 * Replaces decoded values by residuals, `values` minus decoded; by 0 where that is not finite: no
 * step may inherit it.
 */
function toResidual(values: Float32Array, decoded: Float32Array): void {
  for (let i = 0; i < values.length; i++) {
    const residual = values[i]! - decoded[i]!;
    decoded[i] = residual - residual === 0 ? residual : 0;
  }
}

/**
 * Elements that share a scale in int8. The larger, the fewer bytes, and the coarser are small
 * values beside large ones: of gradients of the mlp on MNIST, blocks of 32, 128, 512 and a whole
 * segment lose 0.6, 0.75, 0.9 and 1.3 % (root mean square) of 3.56, 3.88, 3.97 and 4.0 times fewer
 * bytes.
 */
export const INT8_BLOCK = 128;
const INT8_BLOCK_BYTES = SCALE_BYTES + INT8_BLOCK;
const INT8_MAX = 127;
/**
 * Bits of mantissa that scales lack. With 17 that are left and 7 of an int8, products of the two
 * are exact in float32, so that the largest value of a block is decoded to 127 scales exactly, and
 * encoding it again finds the same scale.
 */
const DROPPED_SCALE_BITS = 7;
const DROPPED_SCALE_MASK = (1 << DROPPED_SCALE_BITS) - 1;
/**
 * Adding it to a double, and taking it away, rounds to a whole number, ties to even: from 2^52 on
 * there are no others.
 */
const ROUND_TO_INTEGER = 1.5 * 2 ** 52;
/**
 * Where scales are normal numbers and 127 of them no infinity: a block of smaller values is zero,
 * one of larger values NaN.
 */
const SMALLEST = bitsOf(INT8_MAX * 2 ** -126);
const LARGEST = bitsOf(INT8_MAX * 2 ** 120);

/**
 * A quarter of the bytes: 8-bit whole numbers, and for each block of {@link INT8_BLOCK} a float32
 * scale, a 127th of its largest magnitude, rounded up; all scales go first. What is residual is at
 * most half a scale. A block with a NaN, an infinity or a value beyond 127 * 2^120 is NaN as a
 * whole, so that none is hidden.
 */
const int8: Codec = {
  code: DtypeCode.FLOAT32_AS_INT8,
  maxSegment: Math.floor(MAX_PAYLOAD_BYTES / INT8_BLOCK_BYTES) * INT8_BLOCK,
  bytesOf: (elements) => elements + blocksOf(elements) * SCALE_BYTES,
  elementsOf: (bytes) => {
    const elements = bytes - Math.ceil(bytes / INT8_BLOCK_BYTES) * SCALE_BYTES;
    return elements >= 0 && int8.bytesOf(elements) === bytes ? elements : Number.NaN;
  },
  encode: (values, frame, residual) => {
    const { length } = values;
    const bits = new Uint32Array(values.buffer, values.byteOffset, length);
    const { scales, scaleBits, levels } = int8Views(frame, length);
    for (let block = 0, start = 0; start < length; block++, start += INT8_BLOCK) {
      const end = Math.min(start + INT8_BLOCK, length);
      let largest = 0;
      for (let i = start; i < end; i++) {
        // As whole numbers, magnitudes have the order of their values, and NaN is the largest.
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
      // A block that is NaN leaves nothing to the next step.
      if (Number.isNaN(scale)) residual.fill(0, start, end);
      else for (let i = start; i < end; i++) residual[i] = values[i]! - levels[i]! * scale;
    }
  },
  decode: (frame, into) => {
    const { length } = into;
    const { scales, levels } = int8Views(frame, length);
    for (let block = 0, start = 0; start < length; block++, start += INT8_BLOCK) {
      const end = Math.min(start + INT8_BLOCK, length);
      const scale = scales[block]!;
      for (let i = start; i < end; i++) into[i] = levels[i]! * scale;
    }
  },
  addTo: (into, frame) => {
    const { length } = into;
    const { scales, levels } = int8Views(frame, length);
    for (let block = 0, start = 0; start < length; block++, start += INT8_BLOCK) {
      const end = Math.min(start + INT8_BLOCK, length);
      const scale = scales[block]!;
      for (let i = start; i < end; i++) into[i]! += levels[i]! * scale;
    }
  },
};

const CODECS: Record<CodecName, Codec | null> = { fp32: null, fp16, int8 };

/** @throws UsageError where there is none of that name. */
export function codecOf(name: CodecName): Codec | null {
  if (Object.hasOwn(CODECS, name)) return CODECS[name];
  throw new UsageError(`There is no codec "${name}": use ${Object.keys(CODECS).join(', ')}.`);
}

function fp16Views(frame: ArrayBuffer, length: number) {
  return {
    exponent: new Int16Array(frame, FRAME_HEADER_BYTES, 1),
    halves: new Uint16Array(frame, FRAME_HEADER_BYTES + HALF_BYTES, length),
  };
}

function blocksOf(elements: number): number {
  return Math.ceil(elements / INT8_BLOCK);
}

function int8Views(frame: ArrayBuffer, length: number) {
  const blocks = blocksOf(length);
  return {
    scales: new Float32Array(frame, FRAME_HEADER_BYTES, blocks),
    scaleBits: new Uint32Array(frame, FRAME_HEADER_BYTES, blocks),
    levels: new Int8Array(frame, FRAME_HEADER_BYTES + blocks * SCALE_BYTES, length),
  };
}

/** Of a float32. */
function bitsOf(value: number): number {
  return new Uint32Array(Float32Array.of(value).buffer)[0]!;
}
