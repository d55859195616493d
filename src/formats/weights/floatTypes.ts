/** Converts floats in files to float32, the type of all weights in this project. */
import { DataError } from '../../util/errors.ts';
import { fromHalf } from '../../util/float16.ts';

export const FLOAT_TYPES = ['float16', 'bfloat16', 'float32', 'float64'] as const;
export type FloatType = (typeof FLOAT_TYPES)[number];

/**
 * Converts little-endian floats to float32. Only float64 values may be rounded.
 *
 * @param bytes an array that begins at the start of its buffer.
 * @param place the names of the tensor and of its file, for errors.
 * @throws DataError if a finite float64 is too large for float32.
 */
export function toFloat32(
  type: FloatType,
  { buffer }: Uint8Array<ArrayBuffer>,
  { file, name }: { file: string; name: string },
): Float32Array<ArrayBuffer> {
  switch (type) {
    case 'float32':
      return new Float32Array(buffer);
    case 'float16': {
      const halves = new Uint16Array(buffer);
      const values = new Float32Array(halves.length);
      fromHalf(halves, values);
      return values;
    }
    case 'bfloat16':
      // A bfloat16 is the upper half of a float32.
      return new Float32Array(Uint32Array.from(new Uint16Array(buffer), (bits) => bits << 16).buffer);
    case 'float64': {
      const doubles = new Float64Array(buffer);
      const values = new Float32Array(doubles);
      const lost = doubles.find((value, i) => Number.isFinite(value) && !Number.isFinite(values[i]));
      if (lost === undefined) return values;
      throw new DataError(
        `${file} has ${lost} in ${name}, which is too large for float32. Save a model with smaller weights.`,
      );
    }
    default:
      return type satisfies never;
  }
}
