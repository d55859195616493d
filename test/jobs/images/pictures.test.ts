import { expect, test } from 'vitest';
import { findClassFolders } from '../../../src/jobs/images/pictureFolders.ts';
import { PictureFiles } from '../../../src/jobs/images/pictures.ts';
import type { PictureRequest, PictureReadResult } from '../../../src/jobs/images/readPictures.ts';
import { dataFileOf, type FilePlace } from '../../../src/jobs/dataFile.ts';
import { createDeferred, type Deferred } from '../../../src/util/deferred.ts';

const SIDE = 8;

interface Reads {
  /** Numbers of the pictures of each request. */
  asked: number[][];
  answer: (request: number) => void;
}

/** Returns pictures whose requests the test answers. A pixel is the number of its picture. */
function picturesOf(
  count: number,
  size = { side: SIDE, channels: 1 as 1 | 3 },
  bytes = 1,
  placeOf?: (i: number) => FilePlace,
): { pictures: PictureFiles } & Reads {
  const files = Array.from({ length: count }, (_, i) => ({
    ...dataFileOf(new File(['x'], `${i % 2 ? 'b' : 'a'}/${i}.png`)),
    size: bytes,
    ...(placeOf && { place: placeOf(i) }),
  }));
  const found = { pictures: files, others: [], undecoded: [], hidden: [] };
  const folders = findClassFolders('The folder', found, { seed: 1, isShard: false });
  const asked: number[][] = [];
  const answers: { result: Deferred<PictureReadResult[]>; request: PictureRequest }[] = [];
  const pictures = new PictureFiles(folders, size, (request) => {
    asked.push(request.files.map(({ at }) => at));
    const result = createDeferred<PictureReadResult[]>();
    answers.push({ result, request });
    return result.promise;
  });
  const answer = (i: number): void => {
    const { result, request } = answers[i]!;
    result.resolve(request.files.map(({ at }) => ({ pixels: new Uint8Array(SIDE * SIDE).fill(at), crc: at })));
  };
  return { pictures, asked, answer };
}

const upTo = (most: number, from = 0): number[] => Array.from({ length: most - from }, (_, i) => from + i);
const settled = (): Promise<void> => new Promise((done) => setTimeout(done));
const firstOf = (pixels: readonly (Uint8Array | null)[]): (number | undefined)[] => pixels.map((one) => one?.[0]);

test('expected pictures are read ahead in their order, a few requests at a time', async () => {
  const { pictures, asked, answer } = picturesOf(200);
  pictures.expect(upTo(200).toReversed());
  expect(asked).toEqual([0, 1, 2].map((i) => upTo(200 - 64 * i, 136 - 64 * i).toReversed()));
  answer(0);
  await settled();
  expect(asked[3]).toEqual(upTo(8).toReversed());
});

test('a picture is read at once if it was not expected, and only once', async () => {
  const { pictures, asked, answer } = picturesOf(20);
  const both = Promise.all([pictures.read([3, 5, 3]), pictures.read([5])]);
  expect(asked).toEqual([[3, 5]]);
  answer(0);
  const [first, second] = await both;
  expect([firstOf(first), firstOf(second)]).toEqual([[3, 5, 3], [5]]);
  expect(firstOf(await pictures.read([5]))).toEqual([5]);
  expect(asked).toHaveLength(1);
});

test('pictures that are no longer expected are not read', async () => {
  const { pictures, asked, answer } = picturesOf(400);
  pictures.expect(upTo(200));
  pictures.expect(upTo(210, 200));
  for (const i of [0, 1, 2]) answer(i);
  await settled();
  expect(asked.slice(3)).toEqual([upTo(210, 200)]);
});

test('two data sets of the same pictures share the budget, and neither cancels pictures that the other one expects', async () => {
  const { pictures, asked, answer } = picturesOf(3000);
  const [train, held] = [{}, {}];
  pictures.expect(upTo(1100), train);
  pictures.expect(upTo(3000, 1100), held);
  for (let i = 0; i < asked.length; i++) {
    answer(i);
    await settled();
  }
  const half = pictures.ahead / 2;
  expect(asked.flat()).toEqual([...upTo(half), ...upTo(1100 + half, 1100)]);
  pictures.expect([], held);
  expect(asked.flat().slice(2 * half)).toEqual(upTo(half + 3 * 64, half));
});

test('pictures that have no room in memory are read ahead for a second data set when the first one has used some', async () => {
  const { pictures, asked, answer } = picturesOf(1700, { side: 256, channels: 3 });
  const first = pictures.read(upTo(1365));
  for (let i = 0; i < asked.length; i++) answer(i);
  await first;
  const before = asked.length;
  const answerAll = async (): Promise<void> => {
    for (let i = before; i < asked.length; i++) {
      answer(i);
      await settled();
    }
  };
  const [train, held] = [{}, {}];
  const longest = upTo(1365 + pictures.ahead + 8, 1365);
  pictures.expect(longest, train);
  await answerAll();
  pictures.expect(upTo(1700, 1600), held);
  expect(asked.slice(before).flat()).toEqual(longest);
  await pictures.read(upTo(1373, 1365));
  pictures.expect(
    longest.map((at) => at + 8),
    train,
  );
  expect(asked.slice(before).flat().slice(longest.length)).toEqual(upTo(1621, 1600));
});

test('pictures that were used are not read ahead again when another data set expects others', async () => {
  const { pictures, asked, answer } = picturesOf(1700, { side: 256, channels: 3 });
  const full = pictures.read(upTo(1365));
  for (let i = 0; i < asked.length; i++) answer(i);
  await full;
  const before = asked.length;
  const [train, held] = [{}, {}];
  pictures.expect(upTo(1420, 1400), held);
  const used = pictures.read(upTo(1420, 1400));
  for (let i = before; i < asked.length; i++) answer(i);
  await used;
  pictures.expect(upTo(1505, 1500), train);
  expect(asked.slice(before).flat()).toEqual([...upTo(1420, 1400), ...upTo(1505, 1500)]);
});

test('a picture that is already awaited is returned even if it is no longer expected', async () => {
  const { pictures, answer } = picturesOf(20);
  const read = pictures.read([7]);
  pictures.expect([1]);
  answer(0);
  expect(firstOf(await read)).toEqual([7]);
});

test('large files are read a few at a time', () => {
  const { pictures, asked } = picturesOf(7, { side: SIDE, channels: 1 }, 6 * 1024 * 1024);
  void pictures.read(upTo(7));
  expect(asked).toEqual([[0, 1], [2, 3], [4, 5], [6]]);
});

test('a picture that has no room in memory is read ahead once, and again when it is needed again', async () => {
  // 1365 pictures of 256 x 256 x 3 bytes fill the memory.
  const { pictures, asked, answer } = picturesOf(1400, { side: 256, channels: 3 });
  const first = pictures.read(upTo(1365));
  const requests = asked.length;
  upTo(requests).forEach(answer);
  await first;
  pictures.expect([1370, 1371, 1372]);
  answer(requests);
  await settled();
  pictures.expect([1370, 1371, 1372, 1373]);
  answer(requests + 1);
  expect(firstOf(await pictures.read([1370, 1371]))).toEqual([1370 % 256, 1371 % 256]);
  await settled();
  expect(asked.slice(requests)).toEqual([[1370, 1371, 1372], [1373]]);
  void pictures.read([1370]);
  expect(asked.at(-1)).toEqual([1370]);
});

test('the checksums of the files that were read are known', async () => {
  const { pictures, answer } = picturesOf(20);
  const read = pictures.read([4, 2]);
  answer(0);
  await read;
  expect([...pictures.crcs]).toEqual([
    [4, 4],
    [2, 2],
  ]);
  expect(pictures.stated).toBeNull();
});

test('a picture whose bytes another rank still sends delays no other picture', async () => {
  const here = new Set(upTo(40));
  const waits = new Map<number, Deferred<void>>();
  const { pictures, asked, answer } = picturesOf(60, undefined, 1, (i) => ({
    in: 'shared',
    file: {
      size: 1,
      has: () => here.has(i),
      range: async () => {
        if (!here.has(i)) await (waits.get(i) ?? waits.set(i, createDeferred()).get(i)!).promise;
        return new Blob(['x']);
      },
    },
  }));
  const [late, last] = pictures.folders.pictures.flatMap(({ path }, at) =>
    path.endsWith('/40.png') || path.endsWith('/41.png') ? [at] : [],
  );
  const early = upTo(60).filter((at) => at !== late && at !== last);
  pictures.expect([early[0]!, late!, early[1]!, last!]);
  await settled();
  expect(asked).toEqual([[early[0]], [early[1]]]);
  expect([...waits.keys()]).toEqual([40]);
  answer(0);
  await settled();
  expect([...waits.keys()]).toEqual([40, 41]);
  waits.get(40)!.resolve();
  await settled();
  expect(asked.at(-1)).toEqual([late]);
  answer(2);
  expect(firstOf(await pictures.read([late!]))).toEqual([late]);
});

test('an error of the distribution is the error of pictures that wait for it, and they are read after the next one begins', async () => {
  const ended = new Error('A rank has left.');
  let range = (): Promise<Blob> => Promise.reject(ended);
  const { pictures, answer } = picturesOf(20, undefined, 1, () => ({
    in: 'shared',
    file: { size: 1, has: () => false, range: () => range() },
  }));
  pictures.expect([0]);
  await expect(pictures.read([0])).rejects.toBe(ended);
  range = () => Promise.resolve(new Blob(['x']));
  const read = pictures.read([0]);
  await settled();
  answer(0);
  expect(firstOf(await read)).toEqual([0]);
});
