/** Text data with one sample per line, divided among ranks while it is read. */
import { systemClock, type Clock } from '../../util/clock.ts';
import { withinDeadline } from '../../util/deadline.ts';
import { DataError, errorMessageOf, TimeoutError } from '../../util/errors.ts';
import { checkRank } from '../groups/checks.ts';

export interface ReadShardOptions {
  /** The number of this rank, 0 .. worldSize-1. */
  rank: number;
  /** Number of ranks that share the lines. */
  worldSize: number;
  clock?: Clock;
}

/**
 * Longest time without data from a source. A download over a slow link may need that long for its
 * next piece.
 */
export const READ_SHARD_TIMEOUT_MS = 60_000;

/**
 * Reads one rank's lines of a text: line i, counted from 0, belongs to rank i mod worldSize. All
 * ranks read the whole text to find the lines. Only one piece and one line are in memory at a time.
 *
 * The text is UTF-8, with or without a byte order mark; invalid sequences become U+FFFD. Lines end
 * with \n or \r\n; the last line may have no line end. The result can be iterated once. Leaving the
 * loop early closes the source.
 *
 * @param source a file, a stream of bytes, or the URL of a file to fetch.
 * @throws UsageError if `rank` is not in 0 .. worldSize-1. The iteration throws DataError if the
 * source cannot be read to its end, and TimeoutError if the source sends nothing for too long.
 */
export function readShard(
  source: Blob | ReadableStream<Uint8Array> | string,
  { rank, worldSize, clock = systemClock }: ReadShardOptions,
): AsyncIterable<string> {
  checkRank(rank, worldSize);
  return linesOf(source, rank, worldSize, clock);
}

async function* linesOf(
  source: Blob | ReadableStream<Uint8Array> | string,
  rank: number,
  worldSize: number,
  clock: Clock,
): AsyncGenerator<string, void> {
  let line = 0;
  /** The beginning of a line whose end has not arrived yet. */
  let begun = '';
  for await (const text of textOf(source, clock)) {
    let start = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
      if (line % worldSize === rank) yield (begun + text.slice(start, end)).replace(/\r$/, '');
      line += 1;
      begun = '';
      start = end + 1;
    }
    begun += text.slice(start);
  }
  if (begun !== '' && line % worldSize === rank) yield begun;
}

/** The source's text in pieces, which may end anywhere. */
async function* textOf(source: Blob | ReadableStream<Uint8Array> | string, clock: Clock): AsyncGenerator<string, void> {
  const name = typeof source === 'string' ? source : 'The data';
  const abort = new AbortController();
  let reader: ReadableStreamDefaultReader<Uint8Array> | null = null;
  const inTime = <T>(next: Promise<T>): Promise<T> =>
    withinDeadline(
      clock,
      READ_SHARD_TIMEOUT_MS,
      next,
      () =>
        new TimeoutError(
          `Timed out: ${name} sent nothing for ${READ_SHARD_TIMEOUT_MS} ms. Check its server, or copy the file to a server that is closer.`,
        ),
    );
  try {
    const file = typeof source === 'string' ? await inTime(open(source, abort.signal)) : source;
    reader = (file instanceof Blob ? file.stream() : file).getReader();
    const decoder = new TextDecoder();
    for (;;) {
      const { done, value } = await inTime(reader.read());
      yield decoder.decode(value, { stream: !done });
      if (done) return;
    }
  } catch (cause) {
    if (cause instanceof DataError || cause instanceof TimeoutError) throw cause;
    throw new DataError(`${name} could not be read to its end (${errorMessageOf(cause)}). Try again.`, {}, { cause });
  } finally {
    abort.abort();
    // A failure to cancel is ignored, because the error above says what has happened.
    reader?.cancel().catch(() => {});
  }
}

async function open(url: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  let response: Response;
  try {
    response = await fetch(url, { signal });
  } catch (cause) {
    throw new DataError(
      `${url} could not be fetched (${errorMessageOf(cause)}). Check the address and that the server runs. If it is not the ` +
        'server of this page, check that it allows requests from here (CORS: Access-Control-Allow-Origin).',
      {},
      { cause },
    );
  }
  if (!response.ok) {
    throw new DataError(`${url}: the server answered ${response.status}. Check the address and its permissions.`);
  }
  return response.body ?? new Blob([]).stream();
}
