import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { gzip, idxFile, imagesFile, labelsFile } from '../../formats/idxFiles.ts';
import { loadData, sampleLength, type Dataset } from '../../../src/jobs/index.ts';
import { DataError, UsageError } from '../../../src/util/errors.ts';

const baseUrl = 'http://localhost/';
const pair = (split: string, count: number, suffix = '') => ({
  [`${split}-images-idx3-ubyte${suffix}`]: suffix === '' ? imagesFile(count) : gzip(imagesFile(count)),
  [`${split}-labels-idx1-ubyte${suffix}`]: suffix === '' ? labelsFile(count) : gzip(labelsFile(count)),
});

type Files = Record<string, Uint8Array<ArrayBuffer>>;

function fromFiles(files: Files) {
  const picked = Object.entries(files).map(([name, bytes]) => new File([bytes], name));
  return loadData({ job: 'mnist', seed: 1, data: { kind: 'files' } }, { files: picked, baseUrl });
}

async function read(data: Dataset, ...indices: number[]) {
  const inputs = new Float32Array(indices.length * sampleLength(data));
  const labels = new Int32Array(indices.length);
  await data.read(indices, inputs, labels);
  return { inputs, labels: [...labels] };
}

function load(url: string, base = baseUrl, signal?: AbortSignal) {
  return loadData(
    { job: 'mnist', seed: 1, data: { kind: 'url', url } },
    { baseUrl: base, ...(signal === undefined ? {} : { signal }) },
  );
}

describe('picked MNIST files', () => {
  test('may be two pairs, for training and for evaluation', async () => {
    const { train, test: held } = await fromFiles({ ...pair('train', 20, '.gz'), ...pair('t10k', 5) });
    expect([train.size, held.size]).toEqual([20, 5]);
    expect(train).toMatchObject({ inputShape: [28, 28, 1], classes: 10 });
    const { inputs, labels } = await read(train, 11, 0);
    expect(labels).toEqual([1, 0]);
    expect(inputs[784 + 3]).toBe(Math.fround(21 / 255));
    expect(inputs[1]).toBe(Math.fround((((11 * 784 + 1) * 7) % 256) / 255));
    expect(inputs.every((value) => value >= 0 && value <= 1)).toBe(true);
  });

  test.each(['train', 't10k'])('may be the single pair %s, of which a fifth is for evaluation', async (split) => {
    const { train, test: held } = await fromFiles(pair(split, 15));
    expect([train.size, held.size]).toEqual([12, 3]);
    expect((await read(held, 0, 2)).labels).toEqual([2, 4]);
    expect((await read(held, 0)).inputs[0]).toBe(Math.fround(((12 * 784 * 7) % 256) / 255));
  });

  test('give samples that are written only to their own positions in the given arrays; invalid arguments are rejected', async () => {
    const { train } = await fromFiles(pair('train', 10));
    const inputs = new Float32Array(3 * 784).fill(-1);
    const labels = new Int32Array(3).fill(-1);
    await train.read([7], inputs, labels);
    expect([...labels]).toEqual([7, -1, -1]);
    expect(inputs.indexOf(-1)).toBe(784);
    expect(() => train.read([8], inputs, labels)).toThrow('The samples of this dataset are 0 .. 7');
    expect(() => train.read([0, 1, 2, 3], inputs, labels)).toThrow(UsageError);
  });

  const images = 'train-images-idx3-ubyte';
  const labels = 'train-labels-idx1-ubyte';
  test.each<[string, Files, string]>([
    [
      'no files',
      {},
      'Provide at least one pair: train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz, or t10k-images',
    ],
    ['other files', { 'cat.jpg': new Uint8Array(3) }, 'Found: cat.jpg'],
    ['images without labels', { [images]: imagesFile(2) }, 'its labels were not'],
    ['labels without images', { [labels]: labelsFile(2) }, 'its images were not'],
    [
      'different numbers of images and labels',
      { [images]: imagesFile(3), [labels]: labelsFile(4) },
      'has 3 images, but train-labels-idx1-ubyte has 4',
    ],
    [
      'images of another size than 28 x 28',
      { [images]: imagesFile(3, 32, 30), [labels]: labelsFile(3) },
      'images of 32 x 30 pixels',
    ],
    [
      'a label above 9',
      { [images]: imagesFile(1), [labels]: idxFile([1], Uint8Array.of(10)) },
      'label 10 at position 0',
    ],
    [
      'swapped files',
      { [images]: labelsFile(50), [labels]: labelsFile(50) },
      'it has shape 50 and type u1, but images are bytes in 3',
    ],
    ['files without samples', pair('train', 0), 'has no images'],
    ['a single sample', pair('train', 1), 'too few'],
    [
      'a .gz file that is not gzip',
      { [`${images}.gz`]: labelsFile(1).fill(65), [labels]: labelsFile(3) },
      'is not gzip',
    ],
  ])('are rejected with a reason: %s', async (_, files, sentence) => {
    const error = await fromFiles(files).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(DataError);
    expect((error as DataError).message).toContain(sentence);
  });
});

describe('an MNIST folder on a server', () => {
  const close: (() => void)[] = [];
  afterEach(() => close.splice(0).forEach((fn) => fn()));

  /**
   * Serves `files` under /data/ and counts requests. For other addresses, the server answers with
   * `missing`.
   */
  async function serve(files: Record<string, Uint8Array | string>, missing: 404 | 403 | 500 | 'page' = 404) {
    const asked: string[] = [];
    const server = createServer((request, response) => {
      const name = request.url!.replace('/data/', '');
      asked.push(name);
      const body = files[name];
      if (body !== undefined) response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(body);
      else if (missing === 'page') response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html>');
      else response.writeHead(missing).end();
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    close.push(() => {
      server.closeAllConnections();
      server.close();
    });
    return { asked, origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  }

  test('with an index gets requests only for the files in the index, and may have a relative URL', async () => {
    const files = {
      ...pair('t10k', 10, '.gz'),
      'index.json': '["t10k-images-idx3-ubyte.gz","t10k-labels-idx1-ubyte.gz"]',
    };
    const { asked, origin } = await serve(files);
    const { train, test: held } = await load('data?x=1#y', `${origin}/index.html`);
    expect([train.size, held.size]).toEqual([8, 2]);
    expect(asked).toEqual(['index.json', 't10k-images-idx3-ubyte.gz', 't10k-labels-idx1-ubyte.gz']);
  });

  test.each([404, 403, 'page'] as const)(
    'without an index gets requests for the usual names (answer for missing files: %s)',
    async (missing) => {
      const { origin } = await serve({ ...pair('train', 6), ...pair('t10k', 4, '.gz') }, missing);
      const { train, test: held } = await load(`${origin}/data/`);
      expect([train.size, held.size]).toEqual([6, 4]);
    },
  );

  test('is rejected if it is empty, if its index is invalid, or if a file of the index is missing', async () => {
    const { origin } = await serve({});
    await expect(load(`${origin}/data/`)).rejects.toThrow(
      `There are no MNIST files in ${origin}/data/. Provide at least one pair: train-images`,
    );
    const wrong = await serve({ 'index.json': '{"files":[]}' });
    await expect(load(`${wrong.origin}/data`)).rejects.toThrow('index.json is not a JSON list');
    const broken = await serve({ 'index.json': '["train-images-idx3-ubyte"]' });
    await expect(load(`${broken.origin}/data`)).rejects.toThrow('is listed in index.json but does not exist');
  });

  test('causes an error if the server fails or cannot be reached', async () => {
    const { origin } = await serve({}, 500);
    await expect(load(`${origin}/data`)).rejects.toThrow('the server answered 500');
    close.splice(0).forEach((fn) => fn());
    const error = await load(`${origin}/data`).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(DataError);
    expect((error as DataError).message).toMatch(/^http:.*index\.json could not be fetched .*CORS/);
  });

  test('must have an http URL', async () => {
    await expect(load('http://[')).rejects.toThrow('is not a URL');
    await expect(load('file:///etc/')).rejects.toThrow('is not a web address');
    await expect(load('data:text/plain,x')).rejects.toThrow(DataError);
  });

  test("is not loaded if the signal is aborted; the signal's reason is thrown", async () => {
    const controller = new AbortController();
    const server = createServer(() => controller.abort(new Error('left the room')));
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    close.push(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    await expect(load(`http://127.0.0.1:${port}/`, baseUrl, controller.signal)).rejects.toThrow('left the room');
    await expect(load('x', baseUrl, AbortSignal.abort(new Error('early')))).rejects.toThrow('early');
  });
});

test('loadData rejects a kind of data that the job cannot use', async () => {
  await expect(loadData({ job: 'digits', seed: 1, data: { kind: 'files' } }, { baseUrl })).rejects.toThrow(UsageError);
  await expect(loadData({ job: 'mnist', seed: 1, data: { kind: 'synthetic' } }, { baseUrl })).rejects.toThrow(
    UsageError,
  );
});

/** Folder with MNIST's test images (`t10k-*`). */
const folder = process.env['MNIST_DIR'];

test.skipIf(folder === undefined)('the real MNIST images in the folder MNIST_DIR are read correctly', async () => {
  const names = ['t10k-images-idx3-ubyte.gz', 't10k-labels-idx1-ubyte.gz'];
  const files = Object.fromEntries(names.map((name) => [name, new Uint8Array(readFileSync(resolve(folder!, name)))]));
  const { train, test: held } = await fromFiles(files);
  expect([train.size, held.size]).toEqual([8000, 2000]);
  const { inputs, labels } = await read(train, 0, 1, 2, 3, 4);
  expect(labels).toEqual([7, 2, 1, 0, 4]);
  expect(inputs[0]).toBe(0);
  expect(inputs.includes(1)).toBe(true);
});
