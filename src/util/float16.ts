/**
 * Converts arrays between float32 and float16 (IEEE 754 binary16, as bits in a Uint16Array), which
 * halves the bytes on a wire.
 *
 * It uses bit arithmetic, after Fabian Giesen's `float_to_half_fast3_rtne`
 * (https://gist.github.com/rygorous/2156668) and `half_to_float_fast5`
 * (https://gist.github.com/rygorous/2144712), so the result does not depend on the engine.
 */
import { UsageError } from './errors.ts';

const HALF_INFINITY = 0x7c00;
const HALF_QUIET_NAN = 0x7e00;
const FLOAT_INFINITY = 0x7f800000;
const FLOAT_MANTISSA_BITS = 23;
const FLOAT_EXPONENT_BIAS = 127;
/** Bits of the float32 65536. Smaller values may round to a finite half. */
const FLOAT_TOO_LARGE = (127 + 16) << 23;
/** Bits of the float32 2^-14, the smallest normal half. */
const FLOAT_SMALLEST_NORMAL = (127 - 14) << 23;
/**
 * Number of mantissa bits that are dropped: a float32 has this many more mantissa bits than a half.
 */
const DROPPED_BITS = 13;
/**
 * Corrects the exponent's bias and rounds to nearest: the difference of the two biases, plus just
 * less than half a unit of the last kept bit. The caller also adds the last kept bit, which rounds
 * ties to even.
 */
const REBIAS_AND_ROUND = ((15 - 127) << 23) + 0xfff;
/** Subnormal halves are multiples of 2^-24. */
const SUBNORMALS_PER_ONE = 16_777_216;
/**
 * 2^52: all doubles from 2^52 on are integers, so adding 2^52 rounds a number to an integer, ties
 * to even.
 */
const ROUND_TO_INTEGER = 4_503_599_627_370_496;
/**
 * The factor that corrects the exponent's bias after a half's bits were moved to the position of a
 * float32's bits.
 */
const REBIAS = powerOfTwo(112);
/**
 * The smallest exponent that {@link toHalf} accepts. With this exponent, subnormal float32s become
 * subnormal halves.
 */
export const MIN_HALF_EXPONENT = -112;

/**
 * Rounds each float32 to the nearest float16, ties to even. Values of at least 65520 become
 * infinite. Values below 2^-14 become subnormal. Both limits are for absolute values. A NaN stays
 * NaN and keeps the upper bits of its payload.
 *
 * @param into the output; a new array by default.
 * @param exponent values are first divided by 2^exponent. The exponent must be at least -112, and
 *   it must be 0 if a value is infinite or NaN.
 * @throws UsageError if `into` has a different length.
 */
export function toHalf(
  from: Float32Array,
  into: Uint16Array = new Uint16Array(from.length),
  exponent = 0,
): Uint16Array {
  checkLengths(from.length, into.length);
  const shift = exponent << FLOAT_MANTISSA_BITS;
  const smallestNormal = FLOAT_SMALLEST_NORMAL + shift;
  const subnormals = SUBNORMALS_PER_ONE * powerOfTwo(-exponent);
  const bits = new Uint32Array(from.buffer, from.byteOffset, from.length);
  for (let i = 0; i < bits.length; i++) {
    const word = bits[i]!;
    const sign = (word >>> 16) & 0x8000;
    const magnitude = word & 0x7fffffff;
    let half: number;
    if (magnitude < smallestNormal) {
      half = Math.abs(from[i]!) * subnormals + ROUND_TO_INTEGER - ROUND_TO_INTEGER;
    } else if (magnitude - shift < FLOAT_TOO_LARGE) {
      half = (magnitude - shift + REBIAS_AND_ROUND + ((magnitude >>> DROPPED_BITS) & 1)) >>> DROPPED_BITS;
    } else if (magnitude <= FLOAT_INFINITY) {
      half = HALF_INFINITY;
    } else {
      const payload = (magnitude >>> DROPPED_BITS) & 0x3ff;
      // A NaN without a payload would be an infinity.
      half = payload === 0 ? HALF_QUIET_NAN : HALF_INFINITY | payload;
    }
    into[i] = sign | half;
  }
  return into;
}

/**
 * Converts each float16 to float32. The conversion is exact.
 *
 * @param into the output; a new array by default.
 * @param exponent values are multiplied by 2^exponent, to reverse the division in {@link toHalf}.
 * @throws UsageError if `into` has a different length.
 */
export function fromHalf(
  from: Uint16Array,
  into: Float32Array = new Float32Array(from.length),
  exponent = 0,
): Float32Array {
  checkLengths(from.length, into.length);
  // The factor is a double, because it may be too large for a float32. The product of a half and
  // this factor is exact.
  const factor = REBIAS * powerOfTwo(exponent);
  const bits = new Uint32Array(into.buffer, into.byteOffset, into.length);
  for (let i = 0; i < from.length; i++) {
    const half = from[i]!;
    const word = ((half & 0x8000) << 16) | ((half & 0x7fff) << DROPPED_BITS);
    if ((half & HALF_INFINITY) === HALF_INFINITY) {
      bits[i] = word | FLOAT_INFINITY;
    } else {
      bits[i] = word;
      into[i]! *= factor;
    }
  }
  return into;
}

/**
 * Returns 2^exponent for -126 .. 127. The number is built from its bits, because `**` may round in
 * some engines.
 */
function powerOfTwo(exponent: number): number {
  return new Float32Array(Uint32Array.of((exponent + FLOAT_EXPONENT_BIAS) << FLOAT_MANTISSA_BITS).buffer)[0]!;
}

function checkLengths(from: number, into: number): void {
  if (from === into) return;
  throw new UsageError(
    `${from} numbers cannot be converted into an array of ${into}: pass an array of the same length.`,
  );
}
