import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readShard, READ_SHARD_TIMEOUT_MS } from '../../../src/parallel/data/shardedReader.ts';
import { DataError, TimeoutError, UsageError } from '../../../src/util/errors.ts';
import { ManualClock } from '../../manualClock.ts';

const ALONE = { rank: 0, worldSize: 1 };

async function all(lines: AsyncIterable<string>): Promise<string[]> {
  const out: string[] = [];
  for await (const line of lines) out.push(line);
  return out;
}

/** A stream of `bytes`, divided at the positions in `cuts`. */
function streamOf(bytes: Uint8Array, cuts: readonly number[] = []): ReadableStream<Uint8Array> {
  const ends = [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
  return new ReadableStream({
    start(controller) {
      ends.forEach((end, i) => controller.enqueue(bytes.slice(ends[i - 1] ?? 0, end)));
      controller.close();
    },
  });
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

describe('readShard', () => {
  test('divides the lines of any text among any number of ranks, however the text is split into pieces', async () => {
    const piece = fc.constantFrom('\n', '\r\n', '\r', 'a', 'ü', '漢字', '🙂', ' ', '\u0000', '\ufeff');
    await fc.assert(
      fc.asyncProperty(
        fc.array(piece, { maxLength: 40 }).map((pieces) => pieces.join('')),
        fc.array(fc.nat(), { maxLength: 10 }),
        fc.integer({ min: 1, max: 5 }),
        async (text, cuts, worldSize) => {
          const lines = text.replace(/^\ufeff/, '').split(/\r?\n/);
          if (lines.at(-1) === '') lines.pop();
          const shards = await Promise.all(
            Array.from({ length: worldSize }, (_, rank) =>
              all(readShard(streamOf(bytesOf(text), cuts), { rank, worldSize })),
            ),
          );
          expect(shards.reduce((sum, shard) => sum + shard.length, 0)).toBe(lines.length);
          expect(lines.map((_, i) => shards[i % worldSize]![Math.floor(i / worldSize)])).toEqual(lines);
        },
      ),
      { numRuns: 500 },
    );
  });

  test('joins characters, line ends and the byte order mark if these arrive byte by byte', async () => {
    const bytes = bytesOf('\ufeffüber\r\n🙂\r\n\r\nlast');
    const everywhere = Array.from(bytes.keys());
    expect(await all(readShard(streamOf(bytes, everywhere), ALONE))).toEqual(['über', '🙂', '', 'last']);
  });

  test.each([
    ['', []],
    ['\n', ['']],
    ['a', ['a']],
    ['a\n', ['a']],
    ['a\n\n', ['a', '']],
    ['a\r\nb\r\n', ['a', 'b']],
    ['\ufeff', []],
  ])('reads %j as the lines %j', async (text, lines) => {
    expect(await all(readShard(new Blob([text]), ALONE))).toEqual(lines);
  });

  test('replaces invalid UTF-8 by U+FFFD', async () => {
    expect(await all(readShard(streamOf(Uint8Array.of(0x61, 0xff, 0x0a, 0xe6)), ALONE))).toEqual(['a\ufffd', '\ufffd']);
  });

  test('reads only as far as needed, and closes the source if the loop ends early', async () => {
    let pulled = 0;
    let isCancelled = false;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(bytesOf(`${pulled++}\n`));
      },
      cancel() {
        isCancelled = true;
      },
    });
    const seen: string[] = [];
    for await (const line of readShard(endless, { rank: 1, worldSize: 3 })) {
      seen.push(line);
      if (seen.length === 2) break;
    }
    expect(seen).toEqual(['1', '4']);
    expect(pulled).toBeLessThan(10);
    expect(isCancelled).toBe(true);
  });

  test('rejects with the cause if the source fails', async () => {
    const failure = new Error('the cable');
    const stream = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(bytesOf('first\nsec')),
      pull: (controller) => controller.error(failure),
    });
    const seen: string[] = [];
    const reading = (async () => {
      for await (const line of readShard(stream, ALONE)) seen.push(line);
    })();
    await expect(reading).rejects.toThrow(DataError);
    await expect(reading).rejects.toMatchObject({ message: expect.stringContaining('the cable'), cause: failure });
  });

  test('rejects after the timeout if the source sends nothing', async () => {
    const clock = new ManualClock();
    let isCancelled = false;
    const silent = new ReadableStream<Uint8Array>({ cancel: () => void (isCancelled = true) });
    const reading = all(readShard(silent, { ...ALONE, clock }));
    const outcome = expect(reading).rejects.toThrow(TimeoutError);
    clock.advance(READ_SHARD_TIMEOUT_MS);
    await outcome;
    expect(isCancelled).toBe(true);
  });

  test.each([
    [2, 2],
    [-1, 2],
    [0, 0],
    [0.5, 2],
  ])('immediately rejects rank %s of %s', (rank, worldSize) => {
    expect(() => readShard(new Blob([]), { rank, worldSize })).toThrow(UsageError);
  });
});

describe('readShard of a URL', () => {
  const server = createServer((request, response) => {
    if (request.url === '/lines.txt') response.end('a\nb\nc\n');
    else if (request.url === '/broken.txt') {
      response.writeHead(200, { 'content-length': 100 });
      response.write('a\nb', () => response.destroy());
    } else response.writeHead(404).end();
  });
  let base = '';

  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => server.close());

  test('fetches the file', async () => {
    expect(await all(readShard(`${base}/lines.txt`, { rank: 0, worldSize: 2 }))).toEqual(['a', 'c']);
    expect(await all(readShard(`${base}/lines.txt`, { rank: 1, worldSize: 2 }))).toEqual(['b']);
  });

  test.each([
    ['/nowhere.txt', 'the server answered 404'],
    ['/broken.txt', 'could not be read to its end'],
  ])('rejects %s with the reason: %s', async (path, message) => {
    const reading = all(readShard(base + path, ALONE));
    await expect(reading).rejects.toThrow(DataError);
    await expect(reading).rejects.toThrow(`${base}${path}`);
    await expect(reading).rejects.toThrow(message);
  });

  test('rejects an address that is not a URL', async () => {
    await expect(all(readShard('no address', ALONE))).rejects.toThrow('no address could not be fetched');
  });
});
