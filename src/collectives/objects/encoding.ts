/**
 * Encodes JavaScript values as bytes for the object collectives: JSON, Map, Set, Date, BigInt,
 * undefined, NaN, typed arrays, and cyclic references. Code is never encoded or decoded, because
 * other ranks are not trusted.
 */
import { stringify, unflatten } from 'devalue';
import { ProtocolError, UsageError, errorReasonOf } from '../../util/errors.ts';

/** devalue's marks of an array with holes, and of a hole. */
const SPARSE = -7;
const HOLE = -2;
const LEAF_TYPE = /^(BigInt|Date|DataView|ArrayBuffer|((Big)?(Ui|I)nt\d+|Uint8Clamped|Float\d+)Array)$/;
const MAX_BIGINT_LENGTH = 10_000;
/** Maximum number of values that repeated references may add to the decoded value. */
const MAX_REPEATED = 1_000_000;

/**
 * @throws UsageError if a part of the value is not data, such as a function or an object of a
 *   class. The error names this part.
 */
export function encodeObject(value: unknown): Uint8Array {
  try {
    return new TextEncoder().encode(encodeValueAsText(value));
  } catch (error) {
    throw new UsageError(`This value cannot be sent to other ranks: ${errorReasonOf(error)}. Send plain data.`);
  }
}

/** @throws ProtocolError if the bytes do not encode a value. */
export function decodeObject(bytes: Uint8Array): unknown {
  try {
    return decodeValueFromText(new TextDecoder().decode(bytes));
  } catch (error) {
    throw new ProtocolError(`Another rank sent an object that cannot be read: ${errorReasonOf(error)}.`);
  }
}

/**
 * Encodes a value as text, for other ranks or for a file.
 *
 * @throws Error if a part of the value is not data, or {@link decodeValueFromText} would refuse it.
 */
export function encodeValueAsText(value: unknown): string {
  const text = stringify(value, undefined, { operations: { viewInfo } });
  // Receivers would refuse the value, and the group would fail on all ranks.
  checkExpansion(JSON.parse(text));
  return text;
}

/** @throws Error if the text does not encode a value, or the value would be too large. */
export function decodeValueFromText(text: string): unknown {
  const flat: unknown = JSON.parse(text);
  checkExpansion(flat);
  return unflatten(flat as number | unknown[]);
}

/**
 * Checks an encoded value before it is decoded, because a few bytes can describe a value that takes
 * gigabytes of memory or minutes to validate. devalue's format is a list of values that refer to
 * each other by index.
 *
 * @throws Error for holes, unknown types, long BigInts, and values that are referred to too often.
 */
function checkExpansion(flat: unknown): void {
  if (!Array.isArray(flat)) return;
  const values: readonly unknown[] = flat;
  /**
   * For each value: the number of values in it, including those that it refers to; 1 during the
   * count.
   */
  const sizes = new Map<number, number>();
  const sizeOf = (index: unknown): number => {
    if (typeof index !== 'number' || !(index in values)) return 1;
    const known = sizes.get(index);
    if (known !== undefined) return known;
    sizes.set(index, 1);
    const size = referencesOf(values[index]).reduce<number>((sum, other) => sum + sizeOf(other), 1);
    sizes.set(index, size);
    return size;
  };
  if (sizeOf(0) > values.length + MAX_REPEATED) {
    throw new Error('it refers to the same values too often, so it would be too large');
  }
}

/** Returns the indices that a value refers to. @throws Error for a value that is not accepted. */
function referencesOf(value: unknown): readonly unknown[] {
  if (typeof value !== 'object' || value === null) return [];
  if (!Array.isArray(value)) return Object.values(value);
  const [type, ...rest]: unknown[] = value;
  if (type === SPARSE || value.includes(HOLE)) throw new Error('an array has holes');
  if (typeof type !== 'string') return value;
  if (type === 'BigInt' && !(typeof rest[0] === 'string' && rest[0].length <= MAX_BIGINT_LENGTH)) {
    throw new Error(`a BigInt has more than ${MAX_BIGINT_LENGTH} digits`);
  }
  if (type === 'Set' || type === 'Map') return rest;
  if (type === 'null') return rest.filter((_, i) => i % 2 === 1);
  if (type === 'Object') return rest.slice(0, 1);
  if (LEAF_TYPE.test(type)) return [];
  throw new Error(`values of type ${type.slice(0, 40)} are not accepted`);
}

/**
 * Returns the bytes of a view for devalue, which encodes whole buffers. A view of a part of its
 * buffer is copied, so that other data in the buffer (a file, a pool, WebAssembly's memory) stays
 * on this rank.
 */
function viewInfo({ buffer, byteOffset, byteLength }: ArrayBufferView) {
  const isWhole = byteLength === buffer.byteLength;
  const own = isWhole ? buffer : new Uint8Array(buffer, byteOffset, byteLength).slice().buffer;
  return { buffer: own, byteOffset: 0, byteLength, bufferByteLength: byteLength };
}
