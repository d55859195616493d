/**
 * Compares typed arrays by their bytes before vitest compares them number by number, which takes
 * 200 times as long. Arrays whose bytes differ are left to vitest, so nothing else becomes equal.
 */
import { expect } from 'vitest';

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** Returns true, or `undefined` to let vitest compare. */
export function haveEqualBytes(a: unknown, b: unknown): true | undefined {
  if (!ArrayBuffer.isView(a) || !ArrayBuffer.isView(b)) return undefined;
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return undefined;
  return Buffer.compare(bytesOf(a), bytesOf(b)) === 0 || undefined;
}

// The workers load a module once for all of their files, so the list of testers does not grow.
expect.addEqualityTesters([haveEqualBytes]);
