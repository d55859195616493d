/**
 * Values of JavaScript as bytes, for the object collectives: JSON's, and Map, Set, Date, BigInt,
 * undefined, NaN, typed arrays, and values that refer to each other. Code never: what strangers
 * send is only ever data.
 */
import { parse, stringify } from 'devalue';
import { ProtocolError, UsageError, messageOf } from '../../util/errors.ts';

/**
 * @throws UsageError that names the part which is no data, such as a function or an object of a
 *   class.
 */
export function encodeObject(value: unknown): Uint8Array {
  try {
    return new TextEncoder().encode(stringify(value, undefined, { operations: { viewInfo } }));
  } catch (error) {
    throw new UsageError(`This value cannot be sent to other ranks: ${messageOf(error)}. Send plain data.`);
  }
}

/** @throws ProtocolError where the bytes are no such value. */
export function decodeObject(bytes: Uint8Array): unknown {
  try {
    return parse(new TextDecoder().decode(bytes));
  } catch (error) {
    throw new ProtocolError(`Another rank sent an object that cannot be read: ${messageOf(error)}.`);
  }
}

/**
 * The bytes of a view, for devalue, in a buffer of their own: whatever else is in the view's buffer
 * (a file, a pool, WebAssembly's memory) stays on this rank. Views of whole buffers keep theirs,
 * which they may share.
 */
function viewInfo({ buffer, byteOffset, byteLength }: ArrayBufferView) {
  const isWhole = byteLength === buffer.byteLength;
  const own = isWhole ? buffer : new Uint8Array(buffer, byteOffset, byteLength).slice().buffer;
  return { buffer: own, byteOffset: 0, byteLength, bufferByteLength: byteLength };
}
