/** Downloads files from web servers. */
import { systemClock, type Clock } from '../util/clock.ts';
import { DataError, errorMessageOf } from '../util/errors.ts';

/**
 * HTTP status codes for a file that does not exist. Object stores answer 403 for a missing file if
 * clients may not list the folder.
 */
const MISSING = new Set([403, 404, 410]);

/** A request that receives nothing for this number of milliseconds fails. */
const REQUEST_TIMEOUT_MS = 120_000;

export interface DownloadOptions {
  signal?: AbortSignal | undefined;
  headers?: Record<string, string>;
  /** Returns whether an answer has the requested bytes. By default every successful answer has. */
  accept?: (status: number, contentType: string) => boolean;
  /** Further HTTP status codes of answers without the requested bytes. */
  refused?: readonly number[];
  /**
   * Receives the number of received bytes, and the total number of bytes if the server states it.
   */
  onbytes?: (bytes: number, total: number) => void;
}

/** Milliseconds before a failed request is repeated: a server restarts within half a minute. */
const RETRY_MS = [500, 1000, 2000, 4000, 8000, 15_000];

/** The server or the network failed, perhaps only for a moment. */
class TransientError extends DataError {}

/**
 * Repeats a request that fails because the server or the network fails for a moment.
 *
 * @throws (rejects) the error of the last attempt, or at once another error of `send`.
 */
export async function retryTransientErrors<T>(send: () => Promise<T>, clock: Clock = systemClock): Promise<T> {
  for (const ms of RETRY_MS) {
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof TransientError)) throw error;
      await new Promise<void>((resolve) => clock.after(ms, resolve));
    }
  }
  return send();
}

/** Downloads a file as a blob; see {@link requestWebFile}. */
export function downloadAsBlob(url: URL, options?: DownloadOptions): Promise<Blob | null> {
  return requestWebFile(url, (answer) => answer.blob(), options);
}

/**
 * Requests a file, and reads the answer with `read`. Returns `null` if the server reports that the
 * file does not exist, or if `accept` or `refused` rejects the answer.
 *
 * @throws (rejects) DataError if nothing is received, or if the server refuses the request. If the
 *   signal was aborted, throws its reason.
 */
export async function requestWebFile<T>(
  url: URL,
  read: (answer: Response) => Promise<T>,
  { signal, headers = {}, accept = () => true, refused = [], onbytes }: DownloadOptions = {},
): Promise<T | null> {
  const idle = new AbortController();
  const startTimer = (): (() => void) => systemClock.after(REQUEST_TIMEOUT_MS, () => idle.abort());
  let cancel = startTimer();
  try {
    const response = await fetch(url, {
      headers,
      signal: signal === undefined ? idle.signal : AbortSignal.any([signal, idle.signal]),
    });
    const type = response.headers.get('content-type') ?? '';
    const isOther = type.startsWith('text/html') || !accept(response.status, type);
    const isMissing = MISSING.has(response.status) || refused.includes(response.status);
    if (isMissing || (response.ok && isOther)) {
      await response.body?.cancel();
      return null;
    }
    if (!response.ok) {
      await response.body?.cancel();
      throw new (isTransient(response.status) ? TransientError : DataError)(
        `${url.href}: the server answered ${response.status}. Check the address and its permissions, or try again later.`,
      );
    }
    const total = Number(response.headers.get('content-length') ?? 0);
    let bytes = 0;
    const counted = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      transform(chunk, controller) {
        cancel();
        cancel = startTimer();
        onbytes?.((bytes += chunk.length), Math.max(total, bytes));
        controller.enqueue(chunk);
      },
    });
    return await read(new Response(response.body?.pipeThrough(counted) ?? null));
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    signal?.throwIfAborted();
    if (idle.signal.aborted) {
      throw new DataError(
        `${url.href}: nothing was received for ${REQUEST_TIMEOUT_MS / 1000} s. Use a faster server, or choose the files on this device.`,
        {},
        { cause },
      );
    }
    throw new TransientError(
      `${url.href} could not be fetched (${errorMessageOf(cause)}). Check that the server is running and that, if it is not ` +
        "this page's server, it allows requests from this page (CORS: Access-Control-Allow-Origin).",
      {},
      { cause },
    );
  } finally {
    cancel();
  }
}

/** Whether a later request may succeed: 408 is a timeout, 425 and 429 are requests too early. */
function isTransient(status: number): boolean {
  return status >= 500 || [408, 425, 429].includes(status);
}

/**
 * Resolves with the size of a file in bytes if its server sends ranges of it; otherwise with
 * `null`.
 */
export async function fileSizeIfRanged(url: URL, signal?: AbortSignal): Promise<number | null> {
  const timeout = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
  try {
    const { ok, headers } = await fetch(url, {
      method: 'HEAD',
      signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
    });
    const isRanged = ok && headers.get('accept-ranges') === 'bytes' && headers.get('content-encoding') === null;
    return isRanged ? Number(headers.get('content-length')) || null : null;
  } catch {
    signal?.throwIfAborted();
    // The download that follows reports why the server cannot be reached.
    return null;
  }
}
