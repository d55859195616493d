/** Reads the bytes of a file that the page has chosen, fetched or kept in memory. */
import { checkModelFileSize } from '../../spec/modelFile.ts';
import { systemClock } from '../../util/clock.ts';
import { unlessAborted, withinDeadline } from '../../util/deadline.ts';
import { AbortError, DataError, PeergradError, errorReasonOf, TimeoutError } from '../../util/errors.ts';

/** A file: a `File` of an input element, other bytes, or the address from which it is fetched. */
export type FileSource = Blob | ArrayBuffer | Uint8Array<ArrayBuffer> | URL | string;

/** Maximum time in milliseconds to read or fetch the whole file. */
export const READ_FILE_TIMEOUT_MS = 5 * 60_000;

export interface FileBytes {
  /** The file's name in errors. */
  name: string;
  bytes: Uint8Array<ArrayBuffer>;
}

/**
 * Reads a file of at most 512 MiB.
 *
 * @throws (rejects) DataError if the file cannot be read or fetched, or is too large. AbortError if
 *   the signal is aborted. TimeoutError after {@link READ_FILE_TIMEOUT_MS}.
 */
export async function readFileSource(source: FileSource, signal: AbortSignal | undefined): Promise<FileBytes> {
  const name = nameOf(source);
  const ended = new AbortController();
  const either = signal ? AbortSignal.any([signal, ended.signal]) : ended.signal;
  try {
    const bytes = await withinDeadline(
      systemClock,
      READ_FILE_TIMEOUT_MS,
      unlessAborted(either, readBytes(source, name, either)),
      () => new TimeoutError(`${name} was not read within ${READ_FILE_TIMEOUT_MS / 60_000} minutes. Try again.`),
    );
    return { name, bytes };
  } catch (error) {
    if (signal?.aborted) {
      throw new AbortError(`${name} was not loaded, because its signal was aborted: ${errorReasonOf(signal.reason)}.`);
    }
    if (error instanceof PeergradError) throw error;
    throw new DataError(`${name} could not be read (${errorReasonOf(error)}). Try again.`, {}, { cause: error });
  } finally {
    ended.abort();
  }
}

function nameOf(source: FileSource): string {
  if (source instanceof URL || typeof source === 'string') return String(source);
  return 'name' in source ? String(source.name) : 'The file';
}

async function readBytes(source: FileSource, name: string, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  if (source instanceof Uint8Array || source instanceof ArrayBuffer) {
    checkModelFileSize(name, source.byteLength);
    return source instanceof Uint8Array ? source : new Uint8Array(source);
  }
  if (source instanceof Blob) {
    checkModelFileSize(name, source.size);
    return new Uint8Array(await source.arrayBuffer());
  }
  const response = await fetch(source, { signal });
  if (!response.ok) throw new DataError(`${name} could not be fetched: the server answered ${response.status}.`);
  checkModelFileSize(name, Number(response.headers.get('content-length')));
  return response.body ? readBody(response.body, name) : new Uint8Array();
}

/**
 * Reads the body of a response. The bytes are counted while they arrive, because the server may not
 * have sent their number in advance.
 */
async function readBody(body: ReadableStream<Uint8Array<ArrayBuffer>>, name: string): Promise<Uint8Array<ArrayBuffer>> {
  const reader = body.getReader();
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(chunks).arrayBuffer());
    chunks.push(value);
    size += value.byteLength;
    checkModelFileSize(name, size);
  }
}
