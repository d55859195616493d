import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { downloadAsBlob, retryTransientErrors } from '../../src/jobs/download.ts';
import { readFilesAtPlaces } from '../../src/jobs/dataFile.ts';
import { readWebRanges } from '../../src/jobs/webRanges.ts';
import { systemClock } from '../../src/util/clock.ts';

const close: (() => void)[] = [];
afterEach(() => close.splice(0).forEach((one) => one()));

const CONTENT = 'abcdefghijklmnopqrstuvwxyz';
const RANGES = [
  { start: 20, end: 23 },
  { start: 0, end: 2 },
  { start: 5, end: 9 },
];

/** Starts a server, and returns the address of its file and the ranges that were requested. */
async function serve(
  respond: (range: string, response: ServerResponse) => void,
): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = [];
  const server = createServer((request: IncomingMessage, response) => {
    asked.push(request.headers.range!);
    respond(request.headers.range!, response);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  close.push(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/file`, asked };
}

/** Returns a part of an answer. */
const part = (from: number, last: number): string =>
  `\r\n--x\r\nContent-Type: text/plain\r\nContent-Range: bytes ${from}-${last}/26\r\n\r\n${CONTENT.slice(from, last + 1)}`;

const read = async (url: string): Promise<string[]> =>
  (await readWebRanges(url, RANGES)).map((bytes) => new TextDecoder().decode(bytes));

test('ranges are requested together, and their parts may arrive in a different order', async () => {
  const { url, asked } = await serve((_, response) => {
    response.writeHead(206, { 'content-type': 'multipart/byteranges; boundary=x' });
    // The server sends two of the ranges as one.
    response.end(`${part(20, 22)}${part(0, 8)}\r\n--x--\r\n`);
  });
  expect(await read(url)).toEqual(['uvw', 'ab', 'fghi']);
  expect(asked).toEqual(['bytes=0-1,5-8,20-22']);
});

test('ranges that touch are requested as one', async () => {
  const { url, asked } = await serve((range, response) => {
    response.writeHead(206).end(range === 'bytes=3-8' ? CONTENT.slice(3, 9) : '');
  });
  const [second, first] = await readWebRanges(url, [
    { start: 5, end: 9 },
    { start: 3, end: 5 },
  ]);
  expect([first, second].map((bytes) => new TextDecoder().decode(bytes))).toEqual(['de', 'fghi']);
  expect(asked).toEqual(['bytes=3-8']);
});

test('ranges are requested one by one from a server that answers a request for several with the whole file', async () => {
  const { url, asked } = await serve((range, response) => {
    const [, from, last] = /^bytes=(\d+)-(\d+)$/.exec(range) ?? [];
    if (from === undefined) response.end(CONTENT);
    else response.writeHead(206).end(CONTENT.slice(Number(from), Number(last) + 1));
  });
  expect(await read(url)).toEqual(['uvw', 'ab', 'fghi']);
  expect(await read(url)).toEqual(['uvw', 'ab', 'fghi']);
  expect(asked.filter((range) => range.includes(','))).toHaveLength(1);
});

test.each([400, 416])('ranges are requested singly from a server that answers several with %i', async (status) => {
  const { url, asked } = await serve((range, response) => {
    const [, from, last] = /^bytes=(\d+)-(\d+)$/.exec(range) ?? [];
    if (from === undefined) response.writeHead(status).end('Invalid range');
    else response.writeHead(206).end(CONTENT.slice(Number(from), Number(last) + 1));
  });
  expect([await read(url), await read(url)]).toEqual([
    ['uvw', 'ab', 'fghi'],
    ['uvw', 'ab', 'fghi'],
  ]);
  expect(asked.filter((range) => range.includes(','))).toHaveLength(1);
});

test.each([
  ['in an answer with several', false],
  ['when it is requested alone', true],
])('a file is named if the server no longer sends its range %s', async (_, isSingle) => {
  const { url } = await serve((range, response) => {
    const [, from, last] = /^bytes=(\d+)-(\d+)$/.exec(range) ?? [];
    if (range === 'bytes=20-22' || (from === undefined && isSingle)) response.writeHead(416).end();
    else if (from !== undefined) response.writeHead(206).end(CONTENT.slice(Number(from), Number(last) + 1));
    else {
      response.writeHead(206, { 'content-type': 'multipart/byteranges; boundary=x' });
      response.end(`${part(0, 1)}${part(5, 8)}\r\n--x--\r\n`);
    }
  });
  const files = ['cats/1.png', 'cats/2.png', 'dogs/1.png'].map((path, i) => ({
    path,
    place: { in: 'web', url, range: RANGES[i]! } as const,
  }));
  await expect(readFilesAtPlaces(files)).rejects.toThrow(`cats/1.png in ${url} has changed since it was listed`);
});

test.each([
  ['alone', []],
  ['with others', [{ path: 'dogs/1.png', start: 20, end: 23 }]],
])('if files whose ranges touch are requested %s, the first one that is missing is named', async (_, others) => {
  const length = 6;
  const { url } = await serve((range, response) => {
    const [, from, last] = /^bytes=(\d+)-(\d+)$/.exec(range) ?? [];
    if (from === undefined || Number(from) >= length) response.writeHead(416).end();
    else response.writeHead(206).end(CONTENT.slice(Number(from), Math.min(length, Number(last) + 1)));
  });
  const files = [
    { path: 'cats/1.png', start: 2, end: 4 },
    { path: 'cats/2.png', start: 4, end: 7 },
    { path: 'cats/3.png', start: 7, end: 9 },
    ...others,
  ];
  const reading = readFilesAtPlaces(files.map(({ path, ...range }) => ({ path, place: { in: 'web', url, range } })));
  await expect(reading).rejects.toThrow(`cats/2.png in ${url} has changed since it was listed`);
});

test('a file that has become shorter is reported', async () => {
  const { url } = await serve((range, response) => {
    const [, from] = /^bytes=(\d+)-/.exec(range)!;
    response.writeHead(206).end(CONTENT.slice(Number(from), Number(from) + 1));
  });
  await expect(read(url)).rejects.toThrow(`${url} has changed since it was listed`);
});

test('a request is repeated while the server restarts, and other failures are reported at once', async () => {
  const waits: number[] = [];
  const clock = {
    ...systemClock,
    after: (ms: number, fn: () => void): (() => void) => {
      waits.push(ms);
      queueMicrotask(fn);
      return () => {};
    },
  };
  const answers = [503, 503, 200];
  const { url } = await serve((_, response) => response.writeHead(answers.shift() ?? 400).end('x'));
  const send = (): Promise<Blob | null> => downloadAsBlob(new URL(url));
  expect(await (await retryTransientErrors(send, clock))!.text()).toBe('x');
  await expect(retryTransientErrors(send, clock)).rejects.toThrow('the server answered 400');
  expect(waits).toEqual([500, 1000]);
});
