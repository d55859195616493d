/**
 * Encodes JavaScript values as bytes for the object collectives: JSON, Map, Set, Date, BigInt,
 * undefined, NaN, typed arrays, and cyclic references. Code is never encoded or decoded, because
 * other ranks are not trusted.
 */
import { parse, stringify } from 'devalue';
import { ProtocolError, UsageError, reasonOf } from '../../util/errors.ts';

/**
 * @throws UsageError if a part of the value is not data, such as a function or an object of a
 *   class. The error names this part.
 */
export function encodeObject(value: unknown): Uint8Array {
  try {
    return new TextEncoder().encode(stringify(value, undefined, { operations: { viewInfo } }));
  } catch (error) {
    throw new UsageError(`This value cannot be sent to other ranks: ${reasonOf(error)}. Send plain data.`);
  }
}

/** @throws ProtocolError if the bytes do not encode a value. */
export function decodeObject(bytes: Uint8Array): unknown {
  try {
    return parse(new TextDecoder().decode(bytes));
  } catch (error) {
    throw new ProtocolError(`Another rank sent an object that cannot be read: ${reasonOf(error)}.`);
  }
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
