/** Reads the bytes of a file that the page has chosen, fetched or kept in memory. */
import { MAX_MODEL_FILE_BYTES } from '../../spec/modelFile.ts';
import { systemClock } from '../../util/clock.ts';
import { within } from '../../util/deadline.ts';
import { DataError, reasonOf, TimeoutError } from '../../util/errors.ts';

/** A file: a `File` of an input element, other bytes, or the address from which it is fetched. */
export type FileSource = Blob | ArrayBuffer | Uint8Array<ArrayBuffer> | URL | string;

/** Milliseconds until the whole file must have been read or fetched. */
const READ_TIMEOUT_MS = 5 * 60_000;

export interface FileBytes {
  /** The file's name in errors. */
  name: string;
  bytes: Uint8Array<ArrayBuffer>;
}

/**
 * Reads a file of at most 512 MiB.
 *
 * @throws (rejects) DataError if it cannot be read or fetched, or is too large; TimeoutError.
 */
export async function readSource(source: FileSource, signal: AbortSignal | undefined): Promise<FileBytes> {
  if (source instanceof Uint8Array) return { name: 'The file', bytes: source };
  if (source instanceof ArrayBuffer) return { name: 'The file', bytes: new Uint8Array(source) };
  const name = nameOf(source);
  const ended = new AbortController();
  const read = readBlob(source, name, signal ? AbortSignal.any([signal, ended.signal]) : ended.signal);
  try {
    const blob = await within(
      systemClock,
      READ_TIMEOUT_MS,
      read,
      () => new TimeoutError(`${name} was not read within ${READ_TIMEOUT_MS / 60_000} minutes. Try again.`),
    );
    return { name, bytes: new Uint8Array(blob) };
  } finally {
    ended.abort();
  }
}

function nameOf(source: Blob | URL | string): string {
  if (!(source instanceof Blob)) return String(source);
  return 'name' in source ? String(source.name) : 'The file';
}

async function readBlob(source: Blob | URL | string, name: string, signal: AbortSignal): Promise<ArrayBuffer> {
  try {
    if (source instanceof Blob) {
      checkSize(name, source.size);
      return await source.arrayBuffer();
    }
    const response = await fetch(source, { signal });
    if (!response.ok) throw new DataError(`${name} could not be fetched: the server answered ${response.status}.`);
    checkSize(name, Number(response.headers.get('content-length')));
    const bytes = await response.arrayBuffer();
    checkSize(name, bytes.byteLength);
    return bytes;
  } catch (error) {
    if (error instanceof DataError) throw error;
    throw new DataError(`${name} could not be read (${reasonOf(error)}). Try again.`, {}, { cause: error });
  }
}

function checkSize(name: string, size: number): void {
  if (size > MAX_MODEL_FILE_BYTES) {
    throw new DataError(`${name} has ${size} bytes. A tab can read at most ${MAX_MODEL_FILE_BYTES} bytes.`);
  }
}
