import { describe, expect, test } from 'vitest';
import { sampleLength, type Dataset } from '../../../src/jobs/dataset.ts';
import type { DecodePicture } from '../../../src/formats/decodePicture.ts';
import { openImages, type ImagesJob, type OpenedImages } from '../../../src/jobs/images/images.ts';
import { dataFileOf } from '../../../src/jobs/dataFile.ts';
import { trainTestSplit } from '../../../src/jobs/trainTestSplit.ts';
import { DataError } from '../../../src/util/errors.ts';
import { npyFile } from '../../formats/npyFiles.ts';
import { zipFile } from '../../formats/zipFiles.ts';
import { gzip, idxFile, imagesFile, labelsFile } from '../../formats/idxFiles.ts';

const JOB: ImagesJob = { model: 'mlp', seed: 1, side: 8, channels: 1, augment: null };

type Files = Record<string, Uint8Array<ArrayBuffer>>;

/**
 * A fake decoder: the only byte of a picture is its brightness, and 13 means a damaged picture.
 * Tests in real tabs use the browser's decoder.
 */
const decode: DecodePicture = async (name, [value], { side, channels }) => {
  if (value === 13) throw new DataError(`${name} cannot be decoded.`);
  return new Uint8Array(side * side * channels).fill(value!);
};

async function load(
  files: Files,
  job: Partial<ImagesJob> = {},
  onundecoded?: (problem: string) => void,
): Promise<ReturnType<OpenedImages['load']> & OpenedImages> {
  const named = Object.entries(files).map(([name, bytes]) => dataFileOf(new File([bytes], name)));
  const opened = await openImages(named, { ...JOB, ...job }, { decode, onundecoded });
  return { ...opened, ...opened.load() };
}

async function digestOf(files: Files, job: Partial<ImagesJob> = {}): Promise<string | undefined> {
  return (await load(files, job)).train.digest;
}

async function all(data: Dataset): Promise<{ first: number; label: number }[]> {
  const inputs = new Float32Array(data.size * sampleLength(data));
  const labels = new Int32Array(data.size);
  await data.read(
    Uint32Array.from({ length: data.size }, (_, i) => i),
    inputs,
    labels,
  );
  return Array.from(labels, (label, i) => ({ first: inputs[i * sampleLength(data)]!, label }));
}

const picture = (value: number): Uint8Array<ArrayBuffer> => Uint8Array.of(value);
const upTo = (most: number): number[] => Array.from({ length: most }, (_, i) => i);
const pets: Files = Object.fromEntries(
  upTo(10).map((i) => [`pets/${i % 2 ? 'dogs' : 'cats'}/${i}.png`, picture(i % 2 ? 200 + i : i)]),
);

const renamed = (files: Files, rename: (path: string) => string): Files =>
  Object.fromEntries(Object.entries(files).map(([path, bytes]) => [rename(path), bytes]));

/** Returns the files of a folder with this number of pictures. */
const inFolder = (folder: string, pictures: number): Files =>
  Object.fromEntries(upTo(pictures).map((i) => [`${folder}/${i}.png`, picture(50 + i)]));
/** Returns a zip file whose directory states the given size for an entry. */
function claiming(zip: Uint8Array<ArrayBuffer>, path: string, size: number): Uint8Array<ArrayBuffer> {
  const name = Buffer.from(zip.buffer).lastIndexOf(path);
  new DataView(zip.buffer).setUint32(name - 46 + 24, size, true);
  return zip;
}

const inTrain: Files = { ...inFolder('train/cats', 5), ...inFolder('train/dogs', 5) };

describe('pictures in folders', () => {
  test.each([
    ['in plain files', pets],
    ['in a zip file', { 'pets.zip': zipFile(pets) }],
    ['in a zip file whose paths begin with ./', { 'pets.zip': zipFile(renamed(pets, (path) => `./${path}`)) }],
    [
      'in a zip file whose paths have backslashes',
      { 'pets.zip': zipFile(renamed(pets, (path) => path.replaceAll('/', '\\'))) },
    ],
  ])('get their class from their folder if they are %s', async (_, files) => {
    const { train, test: held, preview } = await load({ ...files });
    expect(train).toMatchObject({ size: 8, inputShape: [8, 8, 1], classes: 2, classNames: ['cats', 'dogs'] });
    expect(held.size).toBe(2);
    const samples = [...(await all(train)), ...(await all(held))];
    for (const { first, label } of samples) expect(label).toBe(first > 0.5 ? 1 : 0);
    expect(new Set(samples.map(({ first }) => first)).size).toBe(10);
    expect(preview).toMatchObject({
      samples: 10,
      heldOut: 2,
      shape: [8, 8, 1],
      notes: [],
      classes: [
        { name: 'cats', count: 5 },
        { name: 'dogs', count: 5 },
      ],
    });
    expect(preview.pictures.map(({ label }) => label)).toEqual([...Array(5).fill('cats'), ...Array(5).fill('dogs')]);
    expect(preview.pictures[0]).toMatchObject({ height: 8, width: 8, channels: 1 });
  });

  test("have the same digest in a zip file, and a different digest if a file's size or the chosen size changes", async () => {
    const own = await digestOf(pets);
    expect(own).toMatch(/^[0-9a-f]{16}$/);
    expect(await digestOf({ 'pets.zip': zipFile(pets) })).toBe(own);
    expect(await digestOf({ ...pets, 'pets/cats/0.png': Uint8Array.of(0, 0) })).not.toBe(own);
    expect(await digestOf(pets, { side: 9 })).not.toBe(own);
  });

  test('are for training or held out if their folder has a name such as train or val; a note counts other files', async () => {
    const files = { 'train/a/1.png': picture(1), 'train/b/2.jpg': picture(2), 'val/a/3.webp': picture(3) };
    const {
      train,
      test: held,
      preview,
    } = await load({ ...files, 'readme.txt': picture(0), '__MACOSX/a/1.png': picture(9) });
    expect((await all(train)).map(({ first }) => Math.round(255 * first))).toEqual([1, 2]);
    expect((await all(held)).map(({ first }) => Math.round(255 * first))).toEqual([3]);
    expect(preview.notes).toEqual([
      { kind: 'files-ignored', count: 1, name: '', example: 'readme.txt' },
      { kind: 'class-not-held-out', count: 1, name: 'b', example: '' },
    ]);
  });

  test.each([false, true])('are left out and named if they are damaged (in a zip file: %s)', async (isZip) => {
    const files = { ...pets, 'pets/cats/bad.png': picture(13) };
    const problems: string[] = [];
    const given = isZip ? { 'p.zip': zipFile(files) } : files;
    const { train, test: held, preview } = await load(given, {}, (problem) => problems.push(problem));
    const leftOut = await Promise.all(
      [train, held].map(async (data) => {
        const indices = Uint32Array.from({ length: data.size }, (_, i) => i);
        return data.read(indices, new Float32Array(data.size * sampleLength(data)), new Int32Array(data.size));
      }),
    );
    expect(leftOut.flatMap((positions) => positions ?? [])).toHaveLength(1);
    expect(problems).toEqual(['pets/cats/bad.png cannot be decoded.']);
    expect(preview.pictures).toHaveLength(10);
    expect(preview.notes).toEqual([
      { kind: 'pictures-undecoded', count: 1, name: 'pets/cats', example: 'pets/cats/bad.png' },
    ]);
  });

  test('are left out and counted if they have no labels, as in the test folders of Kaggle', async () => {
    for (const unlabelled of ['test', 'test/test', 'test1/test1', 'seg_pred/seg_pred']) {
      const { train, test: held, preview } = await load({ ...inTrain, ...inFolder(unlabelled, 6) });
      expect(train).toMatchObject({ size: 8, classNames: ['cats', 'dogs'] });
      expect(held.size).toBe(2);
      expect(preview).toMatchObject({ samples: 10, notes: [{ kind: 'folder-left-out', name: unlabelled, count: 6 }] });
    }
    // This is also the case without a folder "train".
    const { preview } = await load({ ...pets, ...inFolder('test', 6) });
    expect(preview).toMatchObject({ samples: 10, notes: [{ kind: 'folder-left-out', name: 'test', count: 6 }] });
  });

  test('are left out and counted if they lie outside the folders of classes, at any depth', async () => {
    for (const root of ['', 'data/']) {
      const below = Object.fromEntries(Object.entries(inTrain).map(([path, bytes]) => [`${root}${path}`, bytes]));
      const { train, preview } = await load({ [`${root}preview.png`]: picture(7), ...below });
      expect(train.classNames).toEqual(['cats', 'dogs']);
      expect(preview).toMatchObject({ samples: 10, notes: [{ name: root.slice(0, -1), count: 1 }] });
    }
    const { preview } = await load({ ...inTrain, 'train/sheet.png': picture(7), ...inFolder('extra/cats', 2) });
    expect(preview.notes).toEqual([
      { kind: 'folder-left-out', name: 'train', count: 1, example: 'train/sheet.png' },
      { kind: 'folder-left-out', name: 'extra/cats', count: 2, example: 'extra/cats/0.png' },
    ]);
  });

  test.each([
    ['seg_train/seg_train', 'seg_test/seg_test'],
    ['training_set', 'test_set'],
    ['test-project/Training', 'test-project/Testing'],
    ['data/train', 'data/valid'],
  ])('are for training in the folder %s and held out in the folder %s', async (training, testing) => {
    const files = { ...inFolder(`${training}/cats`, 3), ...inFolder(`${training}/dogs`, 3) };
    const loaded = await load({ ...files, ...inFolder(`${testing}/cats`, 2) });
    expect([loaded.train.size, loaded.test.size]).toEqual([6, 2]);
    expect(loaded.preview.notes).toEqual([{ kind: 'class-not-held-out', count: 3, name: 'dogs', example: '' }]);
  });

  test('may have a class called test or train', async () => {
    const { train } = await load({ ...inFolder('test', 5), ...inFolder('control', 5) });
    expect(train.classNames).toEqual(['control', 'test']);
    const vehicles = ['train', 'car', 'plane'].map((one) => inFolder(one, 5));
    expect((await load(Object.assign({}, ...vehicles) as Files)).train.classNames).toEqual(['car', 'plane', 'train']);
  });

  test.each<[string, Files, string]>([
    [
      'a held-out folder whose name is not a class',
      { ...inTrain, ...inFolder('test/unknown', 6) },
      'The folder: test/unknown/0.png is held out, but no training picture is in a folder "unknown". The classes are cats, dogs. ' +
        'Add such pictures to train, or remove the folder.',
    ],
    [
      'a held-out class with other upper and lower case',
      { ...inTrain, ...inFolder('test/Cats', 3), ...inFolder('test/dogs', 3) },
      'test/Cats/0.png is held out, but no training picture is in a folder "Cats". The classes are cats, dogs. Rename the folder to "cats"',
    ],
    [
      'labels in file names instead of folders',
      { 'train/cat.0.jpg': picture(1), 'train/dog.0.jpg': picture(2), 'test1/1.jpg': picture(3) },
      'the class of train/cat.0.jpg is unknown, because the folder "train" only names the split',
    ],
    [
      'a picture next to the folders of classes',
      { ...pets, 'pets/preview.png': picture(1) },
      'the class of pets/preview.png is unclear, because pets and its inner folder pets/dogs both contain pictures.',
    ],
    [
      'a zip bomb',
      { 'p.zip': claiming(zipFile({ ...pets, 'pets/dogs/bomb.png': picture(0) }), 'pets/dogs/bomb.png', 2 ** 26 + 1) },
      'p.zip: pets/dogs/bomb.png has 67108865 bytes, more than 67108864. Make it smaller, or remove it.',
    ],
    ['no files', {}, 'The choice has no pictures'],
    ['files that are not pictures', { 'a.txt': picture(1) }, 'The folder has no pictures: a.txt is not a picture'],
    ['a picture outside all folders', { 'a.png': picture(1) }, 'a.png is not in a folder'],
    ['pictures in a single folder', { 'a/1.png': picture(1), 'a/2.png': picture(1) }, 'one folder of pictures, "a"'],
    [
      'a file named .zip that is not a zip file',
      { 'p.zip': picture(1) },
      'p.zip is not a zip file: it starts with 01 at byte 0',
    ],
    [
      'two zip files',
      { 'p.zip': zipFile(pets), 'q.zip': zipFile(pets) },
      'p.zip, q.zip. Choose a single npz or zip file',
    ],
  ])('are rejected with a reason: %s', async (_, files, sentence) => {
    await expect(load(files)).rejects.toThrow(sentence);
    await expect(load(files)).rejects.toBeInstanceOf(DataError);
  });
});

const stripes: DecodePicture = async (_name, _blob, { side }) =>
  Uint8Array.from({ length: side * side }, (_, at) => (at % side) * 10 + side * 4);
const pixelsOf = ({ preview }: OpenedImages): string[] => preview.pictures.map(({ pixels }) => pixels.join());

test('changed pictures are in the preview with a note, but the held-out ones and all samples are read unchanged', async () => {
  const named = Object.entries(pets).map(([name, bytes]) => dataFileOf(new File([bytes], name)));
  const [plain, changed] = await Promise.all(
    ([null, ['flip', 'shift']] as const).map((augment) =>
      openImages(named, { ...JOB, augment: augment && [...augment] }, { decode: stripes }),
    ),
  );
  const [before] = pixelsOf(plain!);
  const kinds = new Set(pixelsOf(changed!));
  expect(kinds.size).toBeGreaterThan(3);
  expect(kinds).toContain(before);
  expect(changed!.preview.notes).toEqual([
    { kind: 'augmented', count: 8, name: 'flip', example: '' },
    { kind: 'augmented', count: 8, name: 'shift', example: '' },
  ]);
  expect(plain!.preview.notes).toEqual([]);
  for (const part of ['train', 'test'] as const) {
    expect(await all(changed!.load()[part])).toEqual(await all(plain!.load()[part]));
  }
});

describe('arrays in npz files', () => {
  const x = npyFile([10, 4, 4], upTo(160), { type: 'u1', order: '|' });
  const y = npyFile(
    [10],
    upTo(10).map((i) => (i % 2 ? 7 : -3)),
    { type: 'i8' },
  );

  test('are images with pixels from 0 to 1 if they contain bytes, and their labels become class indices', async () => {
    const {
      train,
      test: held,
      preview,
    } = await load({ 'set.npz': zipFile({ 'x.npy': x, 'y.npy': y }, { method: 'stored' }) });
    expect(train).toMatchObject({ size: 8, inputShape: [4, 4, 1], classes: 2, classNames: ['-3', '7'] });
    const samples = [...(await all(train)), ...(await all(held))].sort((a, b) => a.first - b.first);
    expect(samples).toEqual(upTo(10).map((i) => ({ first: Math.fround((16 * i) / 255), label: i % 2 })));
    expect(preview.classes).toEqual([
      { name: '-3', count: 5 },
      { name: '7', count: 5 },
    ]);
    expect(preview.pictures).toHaveLength(8);
  });

  test('may be large images, and then still have a preview', async () => {
    const pixels = 224 * 224 * 3;
    const large = npyFile(
      [10, 224, 224, 3],
      Float32Array.from({ length: 10 * pixels }, (_, i) => i % 5),
      { type: 'f4' },
    );
    const { preview } = await load({ 'set.npz': zipFile({ 'x.npy': large, 'y.npy': y }, { method: 'stored' }) });
    expect(preview.pictures[0]!.pixels.subarray(0, 5)).toEqual(Uint8Array.of(0, 63, 127, 191, 255));
  });

  test('are standardized over the training rows if they contain features', async () => {
    const flat = npyFile(
      [10, 2],
      upTo(10).flatMap((i) => [1000 + i, i % 2]),
      { type: 'f8' },
    );
    const held = npyFile([2, 2], [1000, 0, 1009, 1], { type: 'f8' });
    const npz = zipFile({
      'X_train.npy': flat,
      'y_train.npy': y,
      'X_test.npy': held,
      'y_test.npy': npyFile([2, 1], [7, 7], { type: 'u1' }),
    });
    const loaded = await load({ 'set.npz': npz });
    expect([loaded.train.size, loaded.test.size, loaded.train.inputShape]).toEqual([10, 2, [1, 1, 2]]);
    const deviation = Math.sqrt(upTo(10).reduce((sum, i) => sum + (i - 4.5) ** 2, 0) / 10);
    expect((await all(loaded.train))[0]!.first).toBeCloseTo(-4.5 / deviation, 5);
    expect(await all(loaded.test)).toMatchObject([{ label: 1 }, { first: expect.closeTo(4.5 / deviation, 5) }]);
    expect(loaded.preview.pictures).toEqual([]);
    await expect(load({ 'set.npz': npz }, { model: 'cnn' })).rejects.toThrow('Choose mlp');
  });

  test('may have type float64 for training and float32 for evaluation', async () => {
    const arrays = {
      'x_train.npy': npyFile([10, 2], upTo(20), { type: 'f8' }),
      'y_train.npy': y,
      'x_test.npy': npyFile([10, 2], upTo(20), { type: 'f4' }),
      'y_test.npy': y,
    };
    const loaded = await load(npz(arrays));
    expect(await all(loaded.test)).toEqual(await all(loaded.train));
  });

  test('may be changed if they are pictures, and by colour only if they contain bytes', async () => {
    const floats = npyFile([10, 4, 4], upTo(160), { type: 'f4' });
    const opened = await load(npz({ 'x.npy': floats, 'y.npy': y }), { augment: ['flip'] });
    expect(opened.preview.notes).toMatchObject([{ kind: 'augmented', name: 'flip' }]);
    await expect(load(npz({ 'x.npy': floats, 'y.npy': y }), { augment: ['colour'] })).rejects.toThrow(
      'x.npy has type f4, but the augmentation "colour" needs pixels of 0 to 255. Remove "colour" from the field augment, or save the array as uint8.',
    );
    const rows = npyFile([10, 16], upTo(160), { type: 'u1', order: '|' });
    await expect(load(npz({ 'x.npy': rows, 'y.npy': y }), { augment: ['flip'] })).rejects.toThrow(
      'x.npy has rows of 16 numbers, but augment changes pictures. Remove augment from the job, or reshape the array.',
    );
  });

  const heldRow = trainTestSplit(
    upTo(40).map((i) => i % 2),
    JOB.seed,
  ).test[0]!;
  const withGap = upTo(80).map((i) => (i === 2 * heldRow + 1 ? NaN : i));
  const npz = (arrays: Files): Files => ({ 'set.npz': zipFile(arrays) });
  test.each<[string, Files, string]>([
    ['arrays with other names', npz({ 'a.npy': x }), 'set.npz has these arrays: a. Needed are x and y'],
    [
      'different numbers of samples and labels',
      npz({ 'x.npy': x, 'y.npy': npyFile([9], upTo(9)) }),
      'x.npy has 10 samples, but set.npz: y.npy has 9 labels',
    ],
    ['samples without numbers', npz({ 'x.npy': npyFile([10, 0], []), 'y.npy': npyFile([10], upTo(10)) }), 'no numbers'],
    ['one-hot labels', npz({ 'x.npy': x, 'y.npy': npyFile([10, 2], upTo(20)) }), 'y.npy has shape (10, 2)'],
    [
      'a label that is not an integer',
      npz({ 'x.npy': x, 'y.npy': npyFile([10], [...upTo(9), 0.5]) }),
      'y.npy: row 9 has label 0.5',
    ],
    [
      'a missing label',
      npz({ 'x.npy': x, 'y.npy': npyFile([10], [...upTo(9), NaN]) }),
      'y.npy: row 9 has NaN at byte 164',
    ],
    [
      'labels of a single class',
      npz({ 'x.npy': x, 'y.npy': npyFile([10], Array<number>(10).fill(1)) }),
      'the number of different labels is 1',
    ],
    [
      'images with channels first',
      npz({ 'x.npy': npyFile([10, 3, 8, 8], upTo(1920)), 'y.npy': y }),
      'transpose(0, 2, 3, 1)',
    ],
    [
      'a damaged array',
      npz({ 'x.npy': x.subarray(0, 200), 'y.npy': y }),
      'set.npz: x.npy ends too early: an array of shape (10, 4, 4) and type u1',
    ],
    [
      'a missing number in a held-out row',
      npz({
        'x.npy': npyFile([40, 2], withGap),
        'y.npy': npyFile(
          [40],
          upTo(40).map((i) => i % 2),
        ),
      }),
      `x.npy: row ${heldRow} has NaN at byte `,
    ],
    [
      'an infinite number in a held-out row',
      npz({
        'x_train.npy': npyFile([10, 2], upTo(20)),
        'y_train.npy': y,
        'x_test.npy': npyFile([2, 2], [1, 2, 3, Infinity]),
        'y_test.npy': npyFile([2], [7, 7]),
      }),
      'x_test.npy: row 1 has Infinity at byte ',
    ],
    [
      'bytes for training and floats for evaluation',
      npz({ 'x_train.npy': x, 'y_train.npy': y, 'x_test.npy': npyFile([10, 4, 4], upTo(160)), 'y_test.npy': y }),
      'set.npz: x_test.npy has type f4, but set.npz: x_train.npy has u1. Save both with the same type, because their scales may differ.',
    ],
    [
      'a held-out class without training samples',
      npz({ 'x_train.npy': x, 'y_train.npy': y, 'x_test.npy': x, 'y_test.npy': npyFile([10], upTo(10)) }),
      'held-out row 0 has label 0',
    ],
  ])('are rejected with a reason: %s', async (_, files, sentence) => {
    await expect(load(files)).rejects.toThrow(sentence);
  });
});

describe('IDX files', () => {
  const pair = { 'train-images-idx3-ubyte': imagesFile(20, 6, 5), 'train-labels-idx1-ubyte': labelsFile(20) };

  test.each([
    ['plain', pair],
    ['gzipped', Object.fromEntries(Object.entries(pair).map(([name, bytes]) => [`${name}.gz`, gzip(bytes)]))],
  ])('may be a %s pair of images and labels of any size', async (_, files) => {
    const { train, test: held } = await load(files);
    expect(train).toMatchObject({ size: 10, inputShape: [6, 5, 1], classes: 10 });
    const samples = [...(await all(train)), ...(await all(held))];
    const expected = upTo(20).map((i) => ({ first: Math.fround(((i * 30 * 7) % 256) / 255), label: i % 10 }));
    expect(samples.sort((a, b) => a.first - b.first)).toEqual(expected.sort((a, b) => a.first - b.first));
  });

  test('may be two pairs, of which t10k is held out', async () => {
    const held = { 't10k-images-idx3-ubyte': imagesFile(5, 6, 5), 't10k-labels-idx1-ubyte': labelsFile(5) };
    const loaded = await load({ ...pair, ...held });
    expect([loaded.train.size, loaded.test.size]).toEqual([20, 5]);
  });

  const images = 'train-images-idx3-ubyte';
  const labels = 'train-labels-idx1-ubyte';
  test.each<[string, Files, string]>([
    ['images without labels', { [images]: pair[images] }, '(20 x 6 x 5). Choose one file of images and one of labels'],
    [
      'a file that is cut off',
      { ...pair, [images]: pair[images].subarray(0, 99) },
      'ends too early: 20 x 6 x 5 elements of type u1 start at byte 16 and must end at byte 616, but the file ends at byte 99',
    ],
    [
      'a file of labels that is not IDX',
      { ...pair, [labels]: new Uint8Array(99) },
      'is not IDX: it starts with 00 00 00 00 at byte 0',
    ],
    [
      'damaged gzip',
      { ...pair, [labels]: gzip(labelsFile(20)).slice(0, 25) },
      'cannot be unpacked. Its gzip data is damaged or ends too early, after',
    ],
    [
      'different numbers of images and labels',
      { ...pair, [labels]: labelsFile(19) },
      'has 20 samples, but train-labels-idx1-ubyte has 19 labels',
    ],
    [
      'labels of a single class',
      { ...pair, [labels]: idxFile([20], new Uint8Array(20)) },
      'the number of different labels is 1',
    ],
  ])('are rejected with a reason: %s', async (_, files, sentence) => {
    await expect(load(files)).rejects.toThrow(sentence);
  });
});
