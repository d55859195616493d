/** The order in which a run needs slices of distributed files. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { SharedFileSlices } from '../../../src/engine/files/sharedFileSlices.ts';
import { determineFileSliceOrder, wholeFilesSliceOrder } from '../../../src/engine/files/fileSliceOrder.ts';
import { loadData, type Dataset } from '../../../src/jobs/index.ts';
import { sharedFileRangeOf, type DataFile } from '../../../src/jobs/dataFile.ts';
import { EpochOrders } from '../../../src/parallel/data/cursor.ts';
import { initialTrainingProgress } from '../../../src/parallel/recovery/progress.ts';
import { FILE_SLICE_BYTES } from '../../../src/protocol/frame.ts';
import { parseJob, type JobSpec } from '../../../src/spec/job.ts';
import { imagesFile, labelsFile } from '../../formats/idxFiles.ts';
import { zipFile } from '../../formats/zipFiles.ts';

beforeAll(() => void vi.stubGlobal('navigator', { hardwareConcurrency: 2 }));
afterAll(() => void vi.unstubAllGlobals());

const SIDE = 8;
const BATCH = 4;
const WORLD = 2;

const jobOn = (shared: SharedFileSlices, fields: Record<string, unknown> = {}): JobSpec =>
  parseJob({
    ...{ job: 'images', model: 'mlp', side: SIDE, channels: 1, batchSize: BATCH, epochs: 2 },
    data: { kind: 'shared', files: shared.manifest },
    ...fields,
  });

/** Returns a zip file of pictures of 100 kB, which are in two folders. */
async function pets(): Promise<SharedFileSlices> {
  const names = Array.from({ length: 120 }, (_, i) => `pets/${i % 2 ? 'cats' : 'dogs'}/${i}.jpg`);
  const zip = zipFile(Object.fromEntries(names.map((name) => [name, randomBytes(100_000)])));
  return SharedFileSlices.chosen([new File([zip], 'pets.zip')], () => {});
}

function folders(): Promise<SharedFileSlices> {
  const names = Array.from({ length: 60 }, (_, i) => `${i % 2 ? 'cats' : 'dogs'}/${i}.jpg`);
  return chosen(...names.map((name) => new File([randomBytes(FILE_SLICE_BYTES + 1)], name)));
}

async function read(data: Dataset, indices: readonly number[]): Promise<void> {
  await data.read(indices, new Float32Array(indices.length * SIDE ** 2), new Int32Array(indices.length));
}

const chosen = (...files: File[]): Promise<SharedFileSlices> => SharedFileSlices.chosen(files, () => {});

/** Returns the same files on another rank, which has only some slices. */
async function partOf(source: SharedFileSlices, slices: Iterable<number>): Promise<SharedFileSlices> {
  const shared = SharedFileSlices.awaited(source.manifest);
  shared.setDigests(source.digests!);
  shared.begin();
  for (const slice of slices) shared.put(slice, (await source.read(slice))!);
  return shared;
}

/** Returns the slices of the next step's samples, each once, without those that are known. */
function slicesOfSteps(
  source: SharedFileSlices,
  job: JobSpec,
  train: Dataset,
  stored: DataFile[],
  known: Uint32Array,
  { epoch, offset } = { epoch: 0, offset: 0 },
) {
  const window = new EpochOrders(train.size, job.seed).of(epoch).subarray(offset, offset + BATCH * WORLD);
  const all = Array.from(window).flatMap((index) => {
    const { file, range } = sharedFileRangeOf(train.placeOf!(index))!;
    const at = stored.findIndex(({ place }) => place.in === 'shared' && place.file === file);
    return source.slicesOf(at, range.start, range.end);
  });
  return [...new Set(all)].filter((slice) => !known.includes(slice));
}

test.each([
  ['a zip file', pets],
  ['folders', folders],
])('pictures in %s have the order of the first epoch, after what is needed to open them', async (_, create) => {
  const source = await create();
  const job = jobOn(source);
  const { slices, opening } = await determineFileSliceOrder(source, job, WORLD);
  expect(slices.toSorted()).toEqual(wholeFilesSliceOrder(source.count).slices);
  expect(opening).toBeLessThan(source.count / 2);
  const first = slices.subarray(0, opening);
  // A rank opens the data and warms up with these slices alone.
  const part = await partOf(source, first);
  const stored = part.stored();
  const { train } = await loadData(job, { shared: stored, baseUrl: '' });
  await read(train, [0, 1, 2, 3]);
  const next = slicesOfSteps(source, job, train, stored, first);
  expect(Array.from(slices.subarray(opening, opening + next.length))).toEqual(next);
});

test('a run that continues in a later epoch receives the pictures of its next steps first', async () => {
  const source = await pets();
  const job = jobOn(source);
  const position = { epoch: 1, offset: 24 };
  const { slices, opening } = await determineFileSliceOrder(source, job, WORLD, {
    ...initialTrainingProgress(),
    step: 15,
    position,
  });
  const stored = source.stored();
  const { train } = await loadData(job, { shared: stored, baseUrl: '' });
  const next = slicesOfSteps(source, job, train, stored, slices.subarray(0, opening), position);
  expect(Array.from(slices.subarray(opening, opening + next.length))).toEqual(next);
  expect(slices.toSorted()).toEqual(wholeFilesSliceOrder(source.count).slices);
});

test('held-out pictures of a run with a time limit arrive in time for its evaluations', async () => {
  const pictures = ['train', 'test'].flatMap((part) =>
    Array.from({ length: part === 'train' ? 160 : 34 }, (_, i): [string, Uint8Array] => [
      `${part}/${i % 2 ? 'cats' : 'dogs'}/${i}.jpg`,
      // A held-out picture has slices of its own.
      randomBytes(part === 'train' ? FILE_SLICE_BYTES : 3 * FILE_SLICE_BYTES),
    ]),
  );
  const source = await chosen(new File([zipFile(Object.fromEntries(pictures))], 'pets.zip'));
  const orderOf = (limits: Record<string, unknown>) =>
    determineFileSliceOrder(source, jobOn(source, { batchSize: 1, epochs: 1000, ...limits }), WORLD);
  // Such a run evaluates as often as one of 400 steps.
  expect(await orderOf({ maxMinutes: 1 })).toEqual(await orderOf({ maxSteps: 400 }));
});

test('a step waits only for its own slices, and the samples of the first evaluation follow those of the first step', async () => {
  const source = await pets();
  const job = jobOn(source);
  const { slices, opening } = await determineFileSliceOrder(source, job, WORLD);
  const part = await partOf(source, slices.subarray(0, opening));
  const { train, test: held } = await loadData(job, { shared: part.stored(), baseUrl: '' });
  let had = opening;
  const order = new EpochOrders(train.size, job.seed).of(0);
  for (const [data, indices] of [
    [train, order.subarray(0, BATCH * WORLD)],
    [held, Uint32Array.from({ length: held.size }, (_, i) => i)],
  ] as const) {
    const over = new AbortController();
    const reading = read(data, Array.from(indices)).finally(() => over.abort());
    while (!over.signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve));
      if (!over.signal.aborted && had < slices.length) part.put(slices[had]!, (await source.read(slices[had++]!))!);
    }
    await reading;
    expect(had).toBeLessThan(source.count);
  }
});

test('data other than pictures, and runs that measure links, need all slices before the first step', async () => {
  const table = await chosen(
    new File(['rooms,price\n1,2\n'], 'a.csv'),
    new File([new Uint8Array(FILE_SLICE_BYTES)], 'b'),
  );
  expect(await determineFileSliceOrder(table, jobOn(table, { job: 'table' }), WORLD)).toEqual(wholeFilesSliceOrder(2));
  const idx = await chosen(
    new File([imagesFile(40)], 't10k-images-idx3-ubyte'),
    new File([labelsFile(40)], 't10k-labels-idx1-ubyte'),
  );
  expect(await determineFileSliceOrder(idx, jobOn(idx), WORLD)).toEqual(wholeFilesSliceOrder(2));
  const broken = await chosen(new File(['abc'], 'a.zip'));
  expect(await determineFileSliceOrder(broken, jobOn(broken), WORLD)).toEqual(wholeFilesSliceOrder(1));
  const pictures = await pets();
  const all = wholeFilesSliceOrder(pictures.count);
  expect(await determineFileSliceOrder(pictures, jobOn(pictures, { codec: 'auto' }), WORLD)).toEqual(all);
  expect(
    await determineFileSliceOrder(pictures, jobOn(pictures, { measure: 'methods', maxSteps: null }), WORLD),
  ).toEqual(all);
});
