/**
 * Reads ranges of bytes of a file on a web server, many with one request.
 *
 * Source: RFC 9110, sections 14 and 15.3.7 (requests for ranges, and answers with several parts).
 */
import { DataError } from '../util/errors.ts';
import { mapConcurrently } from '../util/mapConcurrently.ts';
import { requestWebFile, retryTransientErrors, type DownloadOptions } from './download.ts';

export interface ByteRange {
  readonly start: number;
  /** The first byte after the range. */
  readonly end: number;
}

/** A range, and the file in it, if the web server's file contains several. */
export interface WebFileRange extends ByteRange {
  readonly path?: string;
}

interface Part {
  readonly start: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/**
 * Maximum number of ranges in a request. Their header then has less than 4 KiB, which servers
 * accept.
 */
const RANGES_PER_REQUEST = 128;
/** Maximum number of concurrent requests for single ranges. */
const REQUESTS = 6;
/** Files whose server does not send several ranges in one answer. */
const sentSingly = new Set<string>();
/** HTTP status codes with which servers refuse several ranges in one request. */
const REFUSED = [400, 416];

/**
 * Resolves with the bytes of each range.
 *
 * @throws (rejects) DataError if a range cannot be received.
 */
export async function readWebRanges(url: string, ranges: readonly WebFileRange[]): Promise<Uint8Array<ArrayBuffer>[]> {
  const wanted = merged(ranges);
  // A page may ask another origin for one range without its permission, but not for several.
  if (globalThis.location !== undefined && new URL(url).origin !== globalThis.location.origin) sentSingly.add(url);
  const parts: Part[] = [];
  for (let at = 0; at < wanted.length && !sentSingly.has(url); at += RANGES_PER_REQUEST) {
    const some = wanted.slice(at, at + RANGES_PER_REQUEST);
    const received =
      some.length === 1 ? await readOne(url, some[0]!) : await retryTransientErrors(() => readTogether(url, some));
    if (received === null) sentSingly.add(url);
    else parts.push(...received);
  }
  if (sentSingly.has(url)) {
    parts.push(...(await mapConcurrently(wanted, REQUESTS, (range) => readOne(url, range))).flat());
  }
  const partOf = ({ start, end }: ByteRange): Part | undefined =>
    parts.find((one) => one.start <= start && end <= one.start + one.bytes.length);
  // One file that is missing may have ended the answer for others.
  const missing = ranges.filter((range) => partOf(range) === undefined);
  parts.push(...(await mapConcurrently(missing, REQUESTS, (range) => readOne(url, range))).flat());
  return ranges.map((range) => {
    const part = partOf(range);
    if (part === undefined) throw changed(url, range);
    return part.bytes.subarray(range.start - part.start, range.end - part.start);
  });
}

/** Returns sorted ranges, of which those that touch are one. */
function merged(ranges: readonly ByteRange[]): ByteRange[] {
  const all: { start: number; end: number }[] = [];
  for (const { start, end } of ranges.toSorted((a, b) => a.start - b.start)) {
    const last = all.at(-1);
    if (last !== undefined && start <= last.end) last.end = Math.max(last.end, end);
    else all.push({ start, end });
  }
  return all;
}

/**
 * Reads a range. Resolves with no part if the server does not send the range. If the file has
 * become shorter, the part is shorter, too.
 */
async function readOne(url: string, range: ByteRange): Promise<Part[]> {
  const bytes = await retryTransientErrors(() => requestRange(url, range, bytesOf));
  return bytes !== null && bytes.length <= range.end - range.start ? [{ start: range.start, bytes }] : [];
}

/**
 * Reads one range of a file as a blob. It fails like {@link readWebRanges}.
 */
export async function readWebRange(
  url: string,
  range: WebFileRange,
  options: Pick<DownloadOptions, 'signal' | 'onbytes'>,
): Promise<Blob> {
  const answer = await requestRange(url, range, (response) => response.blob(), options);
  if (answer?.size !== range.end - range.start) throw changed(url, range);
  return answer;
}

/** Resolves with `null` if the server does not send the range, or no parts of the file. */
function requestRange<T>(
  url: string,
  range: ByteRange,
  read: (answer: Response) => Promise<T>,
  options?: Pick<DownloadOptions, 'signal' | 'onbytes'>,
): Promise<T | null> {
  return requestWebFile(new URL(url), read, {
    ...options,
    headers: headersFor([range]),
    accept: (status) => status === 206,
    refused: [416],
  });
}

async function bytesOf(answer: Response): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await answer.arrayBuffer());
}

/** Resolves with `null` if the server does not send several ranges in one answer. */
async function readTogether(url: string, ranges: readonly ByteRange[]): Promise<Part[] | null> {
  const answer = await requestWebFile(new URL(url), bytesOf, {
    headers: headersFor(ranges),
    accept: (status, type) => status === 206 && type.startsWith('multipart/byteranges'),
    refused: REFUSED,
  });
  return answer && partsOf(answer);
}

function headersFor(ranges: readonly ByteRange[]): Record<string, string> {
  return { range: `bytes=${ranges.map(({ start, end }) => `${start}-${end - 1}`).join(',')}` };
}

/** Returns the parts of an answer. Each part has a header that states its range. */
function partsOf(answer: Uint8Array<ArrayBuffer>): Part[] {
  const parts: Part[] = [];
  for (let at = 0; ;) {
    const headerEnd = endOfHeader(answer, at);
    if (headerEnd < 0) return parts;
    const header = new TextDecoder().decode(answer.subarray(at, headerEnd));
    const [, first, last] = /content-range:\s*bytes (\d+)-(\d+)/i.exec(header) ?? [];
    if (first === undefined) return parts;
    const start = Number(first);
    at = headerEnd + Number(last) + 1 - start;
    parts.push({ start, bytes: answer.subarray(headerEnd, at) });
  }
}

/** Returns the position after the next empty line; -1 if there is no empty line. */
function endOfHeader(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(13, from); at >= 0; at = bytes.indexOf(13, at + 1)) {
    if (bytes[at + 1] === 10 && bytes[at + 2] === 13 && bytes[at + 3] === 10) return at + 4;
  }
  return -1;
}

function changed(url: string, { path }: WebFileRange): DataError {
  return new DataError(
    `${path === undefined ? url : `${path} in ${url}`} has changed since it was listed, or its server does not send parts of it. Start the run again.`,
  );
}
