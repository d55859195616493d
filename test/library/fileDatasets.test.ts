import { readFile } from 'node:fs/promises';
import { inflateSync } from 'node:zlib';
import * as tf from '@tensorflow/tfjs';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { imageFolder, loadData, parquet, table } from '../../src/index.ts';
import { DataLoader, type LabelledBatch } from '../../src/parallel/data/dataLoader.ts';
import { DistributedSampler } from '../../src/parallel/data/distributedSampler.ts';
import { ElasticSampler } from '../../src/parallel/data/elasticSampler.ts';
import { DataError, UsageError } from '../../src/util/errors.ts';
import { npyFile } from '../formats/npyFiles.ts';
import { pngFile } from '../formats/pngFiles.ts';
import { zipFile } from '../formats/zipFiles.ts';

type Colour = readonly [red: number, green: number, blue: number];

/** Number of pictures that the stand-in for the browser's decoder has decoded. */
let decoded = 0;

/** Decodes pictures of one colour, as `pngFile` writes them, where there is no browser. */
async function createImageBitmap(blob: Blob): Promise<object> {
  const file = Buffer.from(await blob.arrayBuffer());
  const data = file.indexOf('IDAT');
  if (data === -1) throw new Error('no picture');
  const colour = inflateSync(file.subarray(data + 4, data + 4 + file.readUInt32BE(data - 4))).subarray(1, 4);
  decoded++;
  return { colour, width: 8, height: 8, close: () => {} };
}

class OneColourCanvas {
  colour: Uint8Array = Uint8Array.of(0, 0, 0);

  getContext() {
    return {
      canvas: {},
      fillRect: () => {},
      drawImage: ({ colour }: { colour: Uint8Array }) => void (this.colour = colour),
      getImageData: (_x: number, _y: number, width: number, height: number) => ({
        data: Array.from({ length: width * height }, () => [...this.colour, 255]).flat(),
      }),
    };
  }
}

beforeEach(async () => {
  await tf.setBackend('cpu');
  decoded = 0;
  vi.stubGlobal('createImageBitmap', createImageBitmap);
  vi.stubGlobal('OffscreenCanvas', OneColourCanvas);
  vi.stubGlobal('navigator', { hardwareConcurrency: 2 });
});

afterEach(() => vi.unstubAllGlobals());

const upTo = (most: number): number[] => Array.from({ length: most }, (_, i) => i);
const png = ([red, green, blue]: Colour): File => new File([pngFile(red, green, blue)], 'p.png');

/** Returns the files of an input element that has chosen a folder. */
const chosen = (paths: readonly string[], colourOf = (i: number): Colour => [i, 0, 0]): File[] =>
  paths.map((path, i) => {
    const file = new File([pngFile(...colourOf(i))], path.split('/').at(-1)!);
    return Object.defineProperty(file, 'webkitRelativePath', { value: path });
  });

/** Twenty pictures of each of two classes. A picture's red is its number. */
const pets = (): File[] => chosen(upTo(40).map((i) => `pets/${i % 2 ? 'dog' : 'cat'}/${i}.png`));

const inOrder = (size: number): DistributedSampler =>
  new DistributedSampler(size, { numReplicas: 1, rank: 0, shuffle: false });

/** Returns the values of the batches of a loader. */
async function valuesOf(loader: AsyncIterable<LabelledBatch>) {
  const batches = [];
  for await (const { xs, ys } of loader) {
    batches.push({ shape: xs.shape, dtype: ys.dtype, xs: xs.dataSync(), ys: Array.from(ys.dataSync()) });
    tf.dispose([xs, ys]);
  }
  return batches;
}

test('classes are numbered in the order of their sorted names, as in torchvision', async () => {
  const folders = ['dog', 'Zebra', 'ant', 'bee 10', 'bee 2'];
  const paths = folders.flatMap((folder, i) => [0, 1].map((k) => `root/${folder}/${i}${k}.png`));
  const data = await imageFolder(chosen(paths));
  // Python's sorted(['dog', 'Zebra', 'ant', 'bee 10', 'bee 2']).
  expect(data.classNames).toEqual(['Zebra', 'ant', 'bee 10', 'bee 2', 'dog']);
  const [batch] = await valuesOf(new DataLoader(data, { sampler: inOrder(10), batchSize: 10 }));
  expect(batch!.ys).toEqual([0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
});

test('batches have pixels from 0 to 1 in the chosen size, with their classes', async () => {
  const files = [
    { path: 'a/1.png', file: png([255, 0, 51]) },
    { path: 'b/2.png', file: png([0, 102, 0]) },
  ];
  const extra = { path: 'a/3.png', file: png([0, 0, 0]) };
  const data = await imageFolder([...files, extra], { side: 9 });
  const [batch] = await valuesOf(new DataLoader(data, { sampler: [2, 0], batchSize: 2 }));
  expect([batch!.shape, batch!.dtype, batch!.ys]).toEqual([[2, 9, 9, 3], 'int32', [1, 0]]);
  const pixels = upTo(81)
    .flatMap(() => [0, 0.4, 0])
    .concat(upTo(81).flatMap(() => [1, 0, 0.2]));
  expect(batch!.xs).toEqual(Float32Array.from(pixels));
  const grey = await imageFolder([...files, extra], { side: 9, channels: 1 });
  expect(grey.inputShape).toEqual([9, 9, 1]);
});

test('two ranks load each picture once, and pictures are decoded before the loop needs them', async () => {
  const ranks = await Promise.all(
    [0, 1].map(async (rank) => {
      const data = await imageFolder(pets(), { side: 8 });
      const sampler = new DistributedSampler(data.size, { numReplicas: 2, rank, seed: 3 });
      return { data, sampler, loader: new DataLoader(data, { sampler, batchSize: 4 }) };
    }),
  );
  const { digest } = ranks[0]!.data;
  expect(ranks.map(({ data }) => data.digest)).toEqual([digest, digest]);
  const reds: number[] = [];
  for (const { data, sampler, loader } of ranks) {
    const opened = decoded;
    const iterator = loader[Symbol.asyncIterator]();
    for (let done = 0; ; done += 4) {
      const { value } = await iterator.next();
      if (!value) break;
      const { xs, ys } = value;
      const numbers = Array.from(
        xs.dataSync().filter((_, i) => i % 192 === 0),
        (red) => Math.round(255 * red),
      );
      expect(Array.from(ys.dataSync(), (label) => data.classNames![label])).toEqual(
        numbers.map((number) => (number % 2 ? 'dog' : 'cat')),
      );
      reds.push(...numbers);
      tf.dispose([xs, ys]);
      if (done > 0) continue;
      // While the loop uses the first batch, all others of this rank are decoded, and no more.
      await vi.waitFor(() => expect(decoded - opened).toBeGreaterThanOrEqual(sampler.length - 12));
    }
    expect(decoded - opened).toBeLessThanOrEqual(sampler.length);
  }
  expect(reds.toSorted((a, b) => a - b)).toEqual(upTo(40));
});

test('nothing is read ahead after a loop has ended', async () => {
  const data = await imageFolder(
    chosen(
      upTo(300).map((i) => `${i % 2}/${i}.png`),
      (i) => [i % 256, 0, 0],
    ),
  );
  for await (const { xs, ys } of new DataLoader(data, { sampler: inOrder(300) })) {
    tf.dispose([xs, ys]);
    break;
  }
  await new Promise((done) => setTimeout(done, 100));
  // Requests of 64 pictures that had begun are finished.
  expect(decoded).toBeLessThan(300);
});

test('folders such as train and val are the two parts; otherwise a fifth is held out', async () => {
  const pictures = chosen(['r/train/a/1.png', 'r/train/b/2.png', 'r/val/a/3.png']);
  const named = await imageFolder([...pictures, { path: 'r/notes.txt', file: new File(['x'], 'notes.txt') }]);
  expect([named.size, named.train.size, named.test.size]).toEqual([3, 2, 1]);
  expect(named.notes).toEqual([
    '1 file is left out, because this job does not read their kind: 1 in r (r/notes.txt).',
    '1 class has no held-out samples, so it is not evaluated: “b” (1 sample).',
  ]);
  const split = await imageFolder(pets(), { seed: 4 });
  expect([split.size, split.train.size, split.test.size]).toEqual([40, 32, 8]);
  const samplesOf = async (data: typeof split.train): Promise<number[]> => {
    const batches = await valuesOf(new DataLoader(data, { sampler: inOrder(data.size), batchSize: 8 }));
    return batches.flatMap(({ xs }) =>
      Array.from(
        xs.filter((_, i) => i % 3072 === 0),
        (red) => Math.round(255 * red),
      ),
    );
  };
  const parts = [...(await samplesOf(split.train)), ...(await samplesOf(split.test))];
  expect(parts.toSorted((a, b) => a - b)).toEqual(upTo(40));
});

test('a zip file of folders has the samples of the folders', async () => {
  const files = pets();
  const entries = await Promise.all(
    files.map(async (file) => [file.webkitRelativePath, new Uint8Array(await file.arrayBuffer())] as const),
  );
  const zip = new File([zipFile(Object.fromEntries(entries))], 'pets.zip');
  expect((await imageFolder([zip])).digest).toBe((await imageFolder(files)).digest);
});

test('a broken picture ends the loop with an error that names it, or is left out of its batch', async () => {
  const files = pets();
  // Not one of the first pictures, which are decoded when the folder is opened.
  files[38] = Object.defineProperty(new File(['broken'], '38.png'), 'webkitRelativePath', { value: 'pets/cat/38.png' });
  const strict = await imageFolder(files);
  const all = new DataLoader(strict, { sampler: inOrder(strict.size), batchSize: 40 });
  const ended = valuesOf(all);
  await expect(ended).rejects.toThrow(DataError);
  await expect(ended).rejects.toThrow('pets/cat/38.png (6 bytes) cannot be decoded.');
  const problems: string[] = [];
  const lenient = await imageFolder(files, { onundecoded: (problem) => problems.push(problem) });
  const [batch] = await valuesOf(new DataLoader(lenient, { sampler: inOrder(40), batchSize: 40 }));
  expect(batch!.shape).toEqual([39, 32, 32, 3]);
  expect(batch!.ys).toEqual([...Array(19).fill(0), ...Array(20).fill(1)]);
  const reds = Array.from(
    batch!.xs.filter((_, i) => i % 3072 === 0),
    (red) => Math.round(255 * red),
  );
  expect(reds.slice(0, 19).toSorted((a, b) => a - b)).toEqual(upTo(19).map((i) => 2 * i));
  expect(problems).toHaveLength(1);
});

test('a broken picture that is found when the folder is opened is named in the notes, and is left out', async () => {
  const files = pets();
  files[0] = Object.defineProperty(new File(['broken'], '0.png'), 'webkitRelativePath', { value: 'pets/cat/0.png' });
  const data = await imageFolder(files);
  expect(data.notes).toEqual([expect.stringContaining('(pets/cat/0.png)')]);
  const [batch] = await valuesOf(new DataLoader(data, { sampler: inOrder(40), batchSize: 40 }));
  expect(batch!.ys).toEqual([...Array(19).fill(0), ...Array(20).fill(1)]);
  const [none] = await valuesOf(new DataLoader(data, { sampler: [0], batchSize: 1 }));
  expect([none!.shape, none!.ys]).toEqual([[0, 32, 32, 3], []]);
  const problems: string[] = [];
  await imageFolder(files, { onundecoded: (problem) => problems.push(problem) });
  expect(problems).toEqual([expect.stringContaining('pets/cat/0.png (6 bytes) cannot be decoded')]);
});

test('files and options that do not fit are rejected with advice', async () => {
  await expect(imageFolder([])).rejects.toThrow('The choice has no pictures');
  await expect(imageFolder(chosen(['1.png', '2.png']))).rejects.toThrow('1.png is not in a folder');
  await expect(imageFolder(pets(), { side: 4 })).rejects.toThrow(UsageError);
  await expect(imageFolder(pets(), { side: 4 })).rejects.toThrow('The options of imageFolder are not valid: side: ');
  const arrays = { 'x.npy': npyFile([4, 8], new Uint8Array(32)), 'y.npy': npyFile([4], [0, 1, 0, 1], { type: 'u1' }) };
  const npz = new File([zipFile(arrays)], 'set.npz');
  await expect(imageFolder([npz])).rejects.toThrow('set.npz has arrays, not pictures in folders');
  const csv = new File(['a,b\n1,2\n'], 'a.csv');
  await expect(parquet(csv)).rejects.toThrow('a.csv is not a Parquet file');
  await expect(table(new File(['a,b\n1,x\n2\n'], 'b.csv'))).rejects.toThrow('b.csv, line 3');
  await expect(table(csv, { target: 'c' })).rejects.toThrow('a.csv, line 1: there is no column "c"');
});

const fixture = async (name: string): Promise<File> =>
  new File([await readFile(new URL(`../formats/tables/${name}`, import.meta.url))], name);

test('a Parquet file has the batches of its CSV file, which are the samples of a job', async () => {
  const bytes: number[] = [];
  const file = await fixture('table.parquet');
  const columns = await parquet(file, { onprogress: ({ done }) => bytes.push(done) });
  expect([bytes.length > 0, bytes.at(-1)! <= file.size]).toEqual([true, true]);
  const rows = await table(await fixture('table.csv'));
  const batchesOf = (data: typeof rows) =>
    valuesOf(new DataLoader(data, { sampler: new ElasticSampler(data.size, { seed: 2 }), batchSize: 50 }));
  const batches = await batchesOf(columns);
  expect(batches).toEqual(await batchesOf(rows));
  expect(batches.map(({ shape }) => shape)).toEqual([50, 50, 50, 10].map((size) => [size, rows.inputShape[2]]));
  const job = { job: 'table', seed: 1, data: { kind: 'files' } } as const;
  const { train } = await loadData(job, { files: [await fixture('table.csv')], baseUrl: '' });
  const samples = async (data: typeof train) =>
    valuesOf(new DataLoader(data, { sampler: inOrder(data.size), batchSize: data.size }));
  expect(await samples(rows.train)).toEqual(await samples(train));
});

test('amounts are float32, in the order of the file', async () => {
  const data = await table(new File(['a,b\n1,10.5\n2,20.5\n3,40.25\n4,30.5\n'], 'amounts.csv'), { task: 'regression' });
  const [batch] = await valuesOf(new DataLoader(data, { sampler: inOrder(4), batchSize: 4 }));
  expect([batch!.shape, batch!.dtype]).toEqual([[4, 1], 'float32']);
  const [first] = batch!.ys;
  const amounts = batch!.ys.map((label) => 10.5 + (label - first!) * data.labelUnit!);
  expect(amounts.map((amount) => Math.round(1000 * amount) / 1000)).toEqual([10.5, 20.5, 40.25, 30.5]);
});
