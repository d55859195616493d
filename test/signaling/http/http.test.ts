import { listFiles } from '../../../src/jobs/fileSource.ts';
import { readFilesAtPlaces } from '../../../src/jobs/dataFile.ts';
import { readWebRanges } from '../../../src/jobs/webRanges.ts';
import { hashOfFileList, type DataFileEntry } from '../../../src/spec/dataFiles.ts';
import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import { mkdir, mkdtemp, rename, symlink, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startSignaling, type SignalingServer } from '../../../signaling/index.ts';

const LARGE_BYTES = 32 * 1024 * 1024;

let folder: string;
let server: SignalingServer;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'peergrad-http-'));
  await mkdir(path.join(folder, 'dist/assets'), { recursive: true });
  await mkdir(path.join(folder, 'data'));
  await writeFile(path.join(folder, 'secret.txt'), 'secret');
  await writeFile(path.join(folder, 'dist/index.html'), '<!doctype html>');
  await writeFile(path.join(folder, 'dist/.hidden'), 'hidden');
  await writeFile(path.join(folder, 'dist/assets/app-1a2b.js'), '1');
  await writeFile(path.join(folder, 'data/t10k-labels-idx1-ubyte.gz'), 'labels');
  await writeFile(path.join(folder, 'data/notes.txt'), 'private');
  // The file does not fit into the buffers of the sockets, so an aborted download of it is never
  // complete.
  await writeFile(path.join(folder, 'dist/assets/large-1a2b.bin'), Buffer.alloc(LARGE_BYTES));
  await writeFile(path.join(folder, 'data/large-idx1-ubyte'), Buffer.alloc(LARGE_BYTES));
  await mkdir(path.join(folder, 'data/train-images-idx3-ubyte'));
  server = await startSignaling({
    dist: path.join(folder, 'dist'),
    data: path.join(folder, 'data'),
    logLevel: 'silent',
  });
});
afterAll(async () => {
  await server.close();
  await rm(folder, { recursive: true });
});

/**
 * Resolves with the status of a request. Unlike fetch, it sends the path and the headers unchanged.
 */
function rawStatus(pathname: string, headers: Record<string, string> = {}): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    request({ port: server.port, host: '127.0.0.1', path: pathname, headers }, (res) => {
      res.resume();
      resolve(res.statusCode);
    })
      .on('error', reject)
      .end();
  });
}

/**
 * Begins `requests` downloads on one connection, and closes the connection after the first bytes.
 */
async function abortedDownload(pathname: string, requests = 1): Promise<void> {
  const socket = connect(server.port, '127.0.0.1');
  socket.write(`GET ${pathname} HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(requests));
  await once(socket, 'data');
  socket.destroy();
  await once(socket, 'close');
}

/** Returns the number of open files of this process in the test's folder. Linux only. */
function openFiles(): number {
  const targets = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      // This is the descriptor of the listing itself, which is closed by now.
      return '';
    }
  });
  return targets.filter((target) => target.startsWith(folder)).length;
}

/** Resolves with the encoding, status and text of the answer for a file of the page. */
async function encodingOf(name: string, headers: Record<string, string>, method = 'GET'): Promise<unknown[]> {
  const response = await fetch(`${server.url}/assets/${name}`, { method, headers });
  return [response.headers.get('content-encoding'), response.status, await response.text()];
}

describe('the HTTP server', () => {
  test('reports at /healthz that it is healthy', async () => {
    const response = await fetch(`${server.url}/healthz`);
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ ok: true, rooms: 0, connections: 0 });
  });

  test('lets browsers cache files with a hash in their names, but not the page', async () => {
    const page = await fetch(`${server.url}/`);
    expect(await page.text()).toBe('<!doctype html>');
    expect(page.headers.get('cache-control')).toBe('no-cache');
    expect(page.headers.get('x-content-type-options')).toBe('nosniff');
    const script = await fetch(`${server.url}/assets/app-1a2b.js`);
    expect(script.headers.get('cache-control')).toContain('immutable');
    expect(script.headers.get('content-type')).toContain('javascript');
  });

  test('compresses scripts for tabs of other machines that accept it', async () => {
    const remote = { 'x-forwarded-for': '203.0.113.7' };
    const script = 'app-1a2b.js';
    expect(await encodingOf(script, { ...remote, 'accept-encoding': 'br, gzip' })).toEqual(['gzip', 200, '1']);
    expect(await encodingOf(script, { ...remote, 'accept-encoding': 'br, gzip' }, 'HEAD')).toEqual(['gzip', 200, '']);
    expect(await encodingOf(script, { ...remote, 'accept-encoding': 'gzip;q=0, identity' })).toEqual([null, 200, '1']);
    expect(await encodingOf(script, { 'accept-encoding': 'gzip' })).toEqual([null, 200, '1']);
    const [encoding, status] = await encodingOf('other-1a2b.js', { ...remote, 'accept-encoding': 'gzip' });
    expect([encoding, status]).toEqual([null, 404]);
  });

  test('serves only the IDX files of a data folder, lists all visible files, and sends bytes unchanged', async () => {
    const index = await fetch(`${server.url}/data/index.json`);
    expect(await index.json()).toEqual([
      { name: 'large-idx1-ubyte', size: expect.any(Number), modified: expect.any(Number) },
      { name: 'notes.txt' },
      { name: 't10k-labels-idx1-ubyte.gz', size: 6, modified: expect.any(Number) },
    ]);
    const file = await fetch(`${server.url}/data/t10k-labels-idx1-ubyte.gz`);
    expect(file.headers.get('content-encoding')).toBeNull();
    expect(await file.text()).toBe('labels');
    const head = await fetch(`${server.url}/data/t10k-labels-idx1-ubyte.gz`, { method: 'HEAD' });
    expect(head.headers.get('content-length')).toBe('6');
    expect((await fetch(`${server.url}/data/notes.txt`)).status).toBe(404);
    expect((await fetch(`${server.url}/data/train-images-idx3-ubyte`)).status).toBe(404);
  });

  test.each([
    '/../secret.txt',
    '/%2e%2e/secret.txt',
    '/..%2fsecret.txt',
    '/data/../secret.txt',
    '/data/..%2f..%2fsecret.txt',
    '/%',
    '/%00',
    '/assets',
    '/assets/',
    '/.hidden',
  ])('serves nothing outside its folders: %s', async (pathname) => {
    expect(await rawStatus(pathname)).toBe(404);
  });

  test('ignores the range of a request, and rejects methods other than GET and HEAD', async () => {
    const odd = await fetch(`${server.url}/`, { headers: { range: 'bytes=9-2' } });
    expect(odd.status).toBe(200);
    expect((await fetch(`${server.url}/`, { method: 'POST' })).status).toBe(405);
  });

  test("answers 304 if the copy in the browser's cache is still valid", async () => {
    const etag = (await fetch(`${server.url}/`)).headers.get('etag');
    expect(etag).not.toBeNull();
    expect(await rawStatus('/', { 'if-none-match': etag! })).toBe(304);
  });

  test('does not let browsers cache errors', async () => {
    const missing = await fetch(`${server.url}/assets/app-gone.js`);
    expect(missing.status).toBe(404);
    expect(missing.headers.get('cache-control')).toBe('no-store');
    expect(missing.headers.get('x-content-type-options')).toBe('nosniff');
    expect(await missing.text()).toBe('There is nothing here.\n');
  });

  test.runIf(process.platform === 'linux').each([
    ['the page', '/assets/large-1a2b.bin', 1],
    ['the data', '/data/large-idx1-ubyte', 1],
    ['the page, many requests on one connection', '/assets/large-1a2b.bin', 5],
    ['the data, many requests on one connection', '/data/large-idx1-ubyte', 5],
  ])('closes the files of downloads that are aborted: %s', async (_, pathname, requests) => {
    for (let i = 0; i < 20; i++) await abortedDownload(pathname, requests);
    await expect.poll(openFiles).toBe(0);
    expect((await fetch(`${server.url}/`)).status).toBe(200);
  });

  test('serves the pictures of a data folder at any depth, singly or together, or a single data file', async () => {
    await mkdir(path.join(folder, 'pets/cats'), { recursive: true });
    for (const name of ['cats/a 1.png', 'cats/.hidden.png', 'cats/notes.txt', 'cats/notes.xml', 'top.png']) {
      await writeFile(path.join(folder, 'pets', name), name);
    }
    await mkdir(path.join(folder, 'pets/a/b/c/d/dogs'), { recursive: true });
    await writeFile(path.join(folder, 'pets/a/b/c/d/dogs/1'), '\u00ff\u00d8\u00ffjpeg', 'latin1');
    await mkdir(path.join(folder, 'pets/.mice/deep'), { recursive: true });
    for (const name of ['.mice/1.png', '.mice/deep/2.png', '.mice/config']) {
      await writeFile(path.join(folder, 'pets', name), name);
    }
    await symlink(path.join(folder, 'pets/a'), path.join(folder, 'pets/owls'));
    await symlink(path.join(folder, 'gone.png'), path.join(folder, 'pets/cats/lost'));
    const pets = await startSignaling({ data: path.join(folder, 'pets'), logLevel: 'silent' });
    expect(await (await fetch(`${pets.url}/data/index.json`)).json()).toEqual([
      { name: '.mice/1.png' },
      { name: '.mice/deep/2.png' },
      { name: 'a/b/c/d/dogs/1', size: 7, modified: expect.any(Number) },
      { name: 'cats/a 1.png', size: 12, modified: expect.any(Number) },
      { name: 'cats/lost' },
      { name: 'cats/notes.txt' },
      { name: 'cats/notes.xml' },
      { name: 'owls' },
      { name: 'top.png', size: 7, modified: expect.any(Number) },
    ]);
    const headers = { range: 'bytes=5-21' };
    const together = await fetch(`${pets.url}/data/index.bin`, { headers });
    expect([together.status, together.headers.get('content-range')]).toEqual([206, 'bytes 5-21/26']);
    expect(await together.text()).toBe('egcats/a 1.pngtop');
    for (const range of ['bytes=0-20,0-20', 'bytes=5-9,0-3', `bytes=${'0-0,'.repeat(300)}1-1`]) {
      const whole = await fetch(`${pets.url}/data/index.bin`, { headers: { range } });
      expect([whole.status, (await whole.arrayBuffer()).byteLength]).toEqual([200, 26]);
    }
    const parts = await readWebRanges(`${pets.url}/data/index.bin`, [
      { start: 19, end: 26 },
      { start: 0, end: 2 },
      { start: 7, end: 19 },
    ]);
    expect(parts.map((bytes) => new TextDecoder('latin1').decode(bytes))).toEqual(['top.png', 'ÿØ', 'cats/a 1.png']);
    expect(await (await fetch(`${pets.url}/data/cats/a%201.png`)).text()).toBe('cats/a 1.png');
    for (const name of ['cats/notes.txt', 'cats/notes.xml', 'cats/.hidden.png', '.mice/1.png', 'cats', '%']) {
      expect((await fetch(`${pets.url}/data/${name}`)).status, name).toBe(404);
    }
    const entries = (await (await fetch(`${pets.url}/data/index.json`)).json()) as DataFileEntry[];
    await writeFile(path.join(folder, 'pets/a/first.png'), 'first');
    await fetch(`${pets.url}/data/index.json`);
    const earlier = `${pets.url}/data/index.bin?of=${hashOfFileList(entries)}`;
    expect((await (await fetch(earlier)).arrayBuffer()).byteLength).toBe(26);
    expect(await (await fetch(earlier)).text()).not.toContain('first');
    expect(await (await fetch(`${pets.url}/data/index.bin`)).text()).toContain('first');
    expect((await fetch(`${pets.url}/data/index.bin?of=0`)).status).toBe(404);
    await pets.close();
    const one = await startSignaling({ data: path.join(folder, 'pets/top.png'), logLevel: 'silent' });
    expect(await (await fetch(`${one.url}/data/top.png`)).text()).toBe('top.png');
    expect((await fetch(`${one.url}/data/cats/a%201.png`)).status).toBe(404);
    await one.close();
  });

  test.each([
    ['has vanished', 'adjacent', (file: string) => rm(file), [0, 1, 2, 3]],
    ['has vanished', 'apart', (file: string) => rm(file), [0, 2, 4]],
    ['has become shorter', 'apart', (file: string) => writeFile(file, 'x'), [0, 2, 3]],
    ['has vanished', 'alone', (file: string) => rm(file), [2]],
  ])('a file that %s is named, if files are requested that are %s', async (what, how, change, requested) => {
    const place = path.join(folder, `${what} ${how}`);
    await mkdir(path.join(place, 'cats'), { recursive: true });
    for (let i = 0; i < 5; i++) await writeFile(path.join(place, `cats/${i}.png`), `picture ${i}`);
    const cats = await startSignaling({ data: place, logLevel: 'silent' });
    const listed = await listFiles(`${cats.url}/data/`, { baseUrl: '' });
    await change(path.join(place, 'cats/2.png'));
    const reading = readFilesAtPlaces(requested.map((i) => listed[i]!));
    await expect(reading).rejects.toThrow(/^cats\/2\.png in .* has changed since it was listed/);
    await cats.close();
  });

  test('serves a data folder again after it could not be read for a moment', async () => {
    const [place, away] = ['moved', 'away'].map((name) => path.join(folder, name));
    await mkdir(place!);
    await writeFile(path.join(place!, 'train-labels-idx1-ubyte'), 'labels');
    const moved = await startSignaling({ data: place!, logLevel: 'silent' });
    const get = (name: string) => fetch(`${moved.url}/data/${name}`);
    expect((await get('index.json')).status).toBe(200);
    await rename(place!, away!);
    expect((await get('index.json')).status).toBe(500);
    await rename(away!, place!);
    // The list was not requested before.
    expect(await (await get('train-labels-idx1-ubyte')).text()).toBe('labels');
    await moved.close();
  });

  test('sends an empty list if there is no data folder', async () => {
    const bare = await startSignaling({ logLevel: 'silent' });
    // The page requests the list. With status 404, every visitor would see an error in the console.
    const index = await fetch(`${bare.url}/data/index.json`);
    expect(index.status).toBe(200);
    expect(await index.json()).toEqual([]);
    expect((await fetch(`${bare.url}/data/train-labels-idx1-ubyte`)).status).toBe(404);
    expect((await fetch(`${bare.url}/`)).status).toBe(404);
    await bare.close();
  });
});
