/**
 * Assertions that work in a tab and in Node. Their messages contain the place (`where`), the
 * expected value and the actual value.
 */
import { errorMessageOf } from '../../src/util/errors.ts';

export class ConformanceError extends Error {
  override readonly name = 'ConformanceError';
}

/** Maximum number of values of an array in a message, and of characters of a value. */
const MAX_SHOWN = 12;
const MAX_SHOWN_CHARACTERS = 300;

export function expectThat(condition: boolean, message: string): asserts condition {
  if (!condition) throw new ConformanceError(message);
}

/** Checks deep equality. -0 is equal to 0, and NaN is equal to NaN. */
export function expectEqual(got: unknown, expected: unknown, where: string): void {
  const difference = differenceOf(got, expected, '');
  if (difference !== null) throw new ConformanceError(`${where}: ${difference}`);
}

/**
 * Checks that every number differs from the expected number by at most `tolerance`. For expected
 * numbers above 1, the tolerance is relative.
 */
export function expectClose(
  got: ArrayLike<number>,
  expected: ArrayLike<number>,
  tolerance: number,
  where: string,
): void {
  expectEqual(got.length, expected.length, `${where}: length`);
  for (let i = 0; i < expected.length; i++) {
    if (Math.abs(got[i]! - expected[i]!) <= tolerance * Math.max(1, Math.abs(expected[i]!))) continue;
    throw new ConformanceError(`${where}: element ${i} is ${got[i]}, expected ${expected[i]} within ${tolerance}`);
  }
}

type ErrorClass = abstract new (...args: never[]) => Error;

/**
 * Checks that a promise rejects with an error of class `kind` and with `message`. Returns the
 * error.
 */
export async function expectRejection(
  promise: PromiseLike<unknown>,
  kind: ErrorClass,
  message: RegExp | string,
  where: string,
): Promise<Error> {
  try {
    await promise;
  } catch (error) {
    return checkError(error, kind, message, where);
  }
  throw new ConformanceError(`${where}: expected ${kind.name}, but it succeeded`);
}

/** Checks that a call throws an error of class `kind` with `message`. Returns the error. */
export function expectThrow(call: () => unknown, kind: ErrorClass, message: RegExp | string, where: string): Error {
  try {
    call();
  } catch (error) {
    return checkError(error, kind, message, where);
  }
  throw new ConformanceError(`${where}: expected ${kind.name}, but it did not throw`);
}

function checkError(error: unknown, kind: ErrorClass, message: RegExp | string, where: string): Error {
  const text = errorMessageOf(error);
  const fits = typeof message === 'string' ? text.includes(message) : message.test(text);
  if (error instanceof kind && fits) return error;
  const got = `${error instanceof Error ? error.name : typeof error}: ${text}`;
  throw new ConformanceError(`${where}: expected ${kind.name} with ${String(message)}, got ${got}`);
}

function isArray(value: unknown): value is ArrayLike<unknown> {
  return Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
}

/**
 * Returns whether two typed arrays are equal byte by byte. This is a fast path for most
 * comparisons.
 */
function haveSameBytes(a: ArrayLike<unknown>, b: ArrayLike<unknown>): boolean {
  if (!ArrayBuffer.isView(a) || !ArrayBuffer.isView(b)) return false;
  const mine = new Uint8Array(a.buffer, a.byteOffset, a.byteLength);
  const theirs = new Uint8Array(b.buffer, b.byteOffset, b.byteLength);
  for (let i = 0; i < mine.length; i++) if (mine[i] !== theirs[i]) return false;
  return true;
}

/** Returns how two values differ; `null` if they are equal. */
function differenceOf(got: unknown, expected: unknown, path: string): string | null {
  if (got === expected || (Number.isNaN(got) && Number.isNaN(expected))) return null;
  // The text is only made if values differ, because most values are equal.
  const plain = (): string => {
    const at = path === '' ? '' : ` at ${path.slice(1)}`;
    return `expected ${show(expected)}${at}, got ${show(got)}`;
  };
  if (typeof got !== 'object' || typeof expected !== 'object' || !got || !expected) return plain();
  if (Object.getPrototypeOf(got) !== Object.getPrototypeOf(expected)) return plain();
  if (expected instanceof Date) return Number(got) === Number(expected) ? null : plain();
  if (expected instanceof Set) return differenceOf([...(got as Set<unknown>)], [...expected], path);
  if (expected instanceof Map) return differenceOf([...(got as Map<unknown, unknown>)], [...expected], path);
  if (isArray(expected) && isArray(got)) {
    if (got.length !== expected.length) return plain();
    if (haveSameBytes(got, expected)) return null;
    for (let i = 0; i < expected.length; i++) {
      if (got[i] === expected[i]) continue;
      const difference = differenceOf(got[i], expected[i], `${path}.${i}`);
      if (difference !== null) return difference;
    }
    return null;
  }
  const keys = Object.keys(expected);
  if (Object.keys(got).length !== keys.length) return plain();
  for (const key of keys) {
    const [mine, theirs] = [got, expected].map((object) => (object as Record<string, unknown>)[key]);
    const difference = differenceOf(mine, theirs, `${path}.${key}`);
    if (difference !== null) return difference;
  }
  return null;
}

function show(value: unknown): string {
  const text = isArray(value)
    ? `[${Array.from(value).slice(0, MAX_SHOWN).map(show).join(', ')}${value.length > MAX_SHOWN ? ', ...' : ''}] (${value.length})`
    : typeof value === 'object' && value !== null
      ? `${value.constructor?.name ?? 'object'} ${JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? `${part}n` : part))}`
      : typeof value === 'bigint'
        ? `${value}n`
        : String(value);
  return text.length > MAX_SHOWN_CHARACTERS ? `${text.slice(0, MAX_SHOWN_CHARACTERS)}...` : text;
}
