import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startSignaling, type SignalingServer } from '../../signaling/index.ts';

let folder: string;
let server: SignalingServer;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'peergrad-http-'));
  await mkdir(path.join(folder, 'dist/assets'), { recursive: true });
  await mkdir(path.join(folder, 'data'));
  await writeFile(path.join(folder, 'secret.txt'), 'secret');
  await writeFile(path.join(folder, 'dist/index.html'), '<!doctype html>');
  await writeFile(path.join(folder, 'dist/assets/app-1a2b.js'), '1');
  await writeFile(path.join(folder, 'data/t10k-labels-idx1-ubyte.gz'), 'labels');
  await writeFile(path.join(folder, 'data/notes.txt'), 'private');
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

/** Without fetch's clean-up of the path. */
function rawStatus(pathname: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    request({ port: server.port, host: '127.0.0.1', path: pathname }, (res) => {
      res.resume();
      resolve(res.statusCode);
    })
      .on('error', reject)
      .end();
  });
}

describe('over HTTP', () => {
  test('is healthy', async () => {
    const response = await fetch(`${server.url}/healthz`);
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({ ok: true, rooms: 0, connections: 0 });
  });

  test('serves the page afresh and hashed files for ever', async () => {
    const page = await fetch(`${server.url}/`);
    expect(await page.text()).toBe('<!doctype html>');
    expect(page.headers.get('cache-control')).toBe('no-cache');
    expect(page.headers.get('x-content-type-options')).toBe('nosniff');
    const script = await fetch(`${server.url}/assets/app-1a2b.js`);
    expect(script.headers.get('cache-control')).toContain('immutable');
    expect(script.headers.get('content-type')).toContain('javascript');
  });

  test('lists and serves IDX files as they are, and nothing else', async () => {
    const index = await fetch(`${server.url}/data/index.json`);
    expect(await index.json()).toEqual(['t10k-labels-idx1-ubyte.gz']);
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
  ])('keeps to its folders: %s', async (pathname) => {
    expect(await rawStatus(pathname)).toBe(404);
  });

  test('survives odd ranges and methods', async () => {
    const odd = await fetch(`${server.url}/`, { headers: { range: 'bytes=9-2' } });
    expect(odd.status).toBe(200);
    expect((await fetch(`${server.url}/`, { method: 'POST' })).status).toBe(405);
  });

  test('has no data where no folder was given', async () => {
    const bare = await startSignaling({ logLevel: 'silent' });
    expect((await fetch(`${bare.url}/data/index.json`)).status).toBe(404);
    expect((await fetch(`${bare.url}/`)).status).toBe(404);
    await bare.close();
  });
});
