import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import type { DecodePicture } from '../../../src/formats/decodePicture.ts';
import { openImages, type ImagesJob, type OpenedImages } from '../../../src/jobs/images/images.ts';
import { dataFileOf } from '../../../src/jobs/dataFile.ts';
import { npyFile } from '../../formats/npyFiles.ts';
import { imagesFile, labelsFile } from '../../formats/idxFiles.ts';
import { zipFile } from '../../formats/zipFiles.ts';

const JOB: ImagesJob = { model: 'mlp', seed: 1, side: 8, channels: 1, augment: null };
const JPEG = Uint8Array.of(0xff, 0xd8, 0xff, 0xe0, 0, 16);
const HEIC = Uint8Array.from('\0\0\0\x18ftypheic\0\0\0\0', (letter) => letter.charCodeAt(0));
const TIFF = Uint8Array.from('II*\0\x08\0\0\0', (letter) => letter.charCodeAt(0));

/** A fake decoder that decodes everything but HEIC and TIFF. */
const decode: DecodePicture = async (name, bytes, { side, channels }) => {
  if (bytes[0] !== 0xff) throw new Error(`${name} cannot be decoded.`);
  return new Uint8Array(side * side * channels);
};

type Files = Record<string, Uint8Array<ArrayBuffer>>;

const folder = (name: string, bytes: Uint8Array<ArrayBuffer>, count = 5, ending = 'jpg'): Files =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`${name}/${i}.${ending}`, bytes]));

function open(files: Files): Promise<OpenedImages> {
  return openImages(
    Object.entries(files).map(([name, bytes]) => dataFileOf(new File([bytes], name))),
    JOB,
    { decode },
  );
}

const countsOf = ({ preview }: OpenedImages): Record<string, number> =>
  Object.fromEntries(preview.classes.map(({ name, count }) => [name, count]));

const cats = folder('pets/cats', JPEG);

test.each(['jfif', 'jpe', 'JPEG', 'pjpeg', 'img', 'heic'])(
  'pictures are recognized by their content, even if their names end in .%s',
  async (ending) => {
    const files = { ...cats, ...folder('pets/dogs', JPEG, 5, ending), 'pets/dogs/list.xml': Uint8Array.of(60) };
    const opened = await open(files);
    expect(countsOf(opened)).toEqual({ cats: 5, dogs: 5 });
    expect(countsOf(await open({ 'pets.zip': zipFile(files) }))).toEqual({ cats: 5, dogs: 5 });
    expect(opened.preview.notes).toEqual([
      { kind: 'files-ignored', count: 1, name: 'pets/dogs', example: 'pets/dogs/list.xml' },
    ]);
  },
);

test('in a zip file on a server, only files whose names do not tell their type are read, and only their starts', async () => {
  const packed = zipFile({
    ...cats,
    ...folder('pets/dogs', JPEG, 5, 'img'),
    'pets/dogs/a.xml': randomBytes(500_000),
    'pets/dogs/b.csv': randomBytes(500_000),
    'pets/dogs/c.txt': JPEG,
  });
  const asked: { start: number; end: number }[] = [];
  const server = createServer((request, response) => {
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range!) ?? [];
    const range = { start: Number(first ?? 0), end: Number(last ?? packed.length - 1) + 1 };
    // The server sends the whole file if it is asked for several ranges.
    if (first !== undefined) asked.push(range);
    response.writeHead(first === undefined ? 200 : 206).end(packed.subarray(range.start, range.end));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/pets.zip`;
  const place = { in: 'web', url, range: { start: 0, end: packed.length } } as const;
  const zip = { path: 'pets.zip', size: packed.length, place, blob: () => Promise.reject(new Error('Read whole.')) };
  const opened = await openImages([zip], JOB, { decode });
  server.close();
  expect(countsOf(opened)).toEqual({ cats: 5, dogs: 5 });
  expect(opened.preview.notes).toMatchObject([{ kind: 'files-ignored', count: 3, name: 'pets/dogs' }]);
  // The directory is searched in the last 64 KiB.
  expect(asked.reduce((sum, { start, end }) => sum + end - start, 0)).toBeLessThan(100_000);
});

test('pictures in hidden folders are left out with a note, and other hidden files without a note', async () => {
  const files = {
    ...cats,
    ...folder('pets/dogs', JPEG),
    ...folder('pets/.owls', JPEG, 3),
    ...folder('__MACOSX/pets/.owls', JPEG, 3),
    'pets/cats/._0.jpg': JPEG,
    'pets/cats/.0.jpg': JPEG,
    'pets/.git/config': JPEG,
  };
  for (const given of [files, { 'pets.zip': zipFile(files) }]) {
    const opened = await open(given);
    expect(countsOf(opened)).toEqual({ cats: 5, dogs: 5 });
    expect(opened.preview.notes).toEqual([
      { kind: 'folder-hidden', count: 3, name: 'pets/.owls', example: 'pets/.owls/0.jpg' },
    ]);
  }
  await expect(open(folder('pets/.owls', JPEG))).rejects.toThrow(
    'has no pictures: pets/.owls/0.jpg is in a hidden folder. Rename the folder',
  );
});

test('names in a zip file are reported if their encoding was guessed', async () => {
  const files = { ...cats, ...folder('pets/Mäuse', JPEG) };
  const packed = zipFile(files, { flags: 0, encode: (name) => Buffer.from(name, 'latin1') });
  const opened = await open({ 'pets.zip': packed });
  expect(countsOf(opened)).toEqual({ cats: 5, Mäuse: 5 });
  expect(opened.preview.notes).toEqual([
    { kind: 'names-guessed', count: 5, name: 'windows-1252', example: 'pets/Mäuse/0.jpg' },
  ]);
});

test('pictures that the browser cannot decode are left out, and a note for each folder has their number', async () => {
  const files = { ...cats, ...folder('pets/dogs', JPEG), ...folder('pets/dogs', HEIC, 2, 'heic') };
  expect((await open(files)).preview.notes).toEqual([
    { kind: 'pictures-undecoded', count: 2, name: 'pets/dogs', example: 'pets/dogs/0.heic' },
  ]);
});

test('a folder is rejected, with the picture format and advice, if the browser can decode none of its pictures', async () => {
  await expect(open({ ...cats, ...folder('pets/dogs', TIFF, 6, 'tif') })).rejects.toThrow(
    'this browser does not decode TIFF pictures such as pets/dogs/0.tif, so the folder "pets/dogs" would lose all of its 6 pictures. Convert them',
  );
});

test('SVG drawings are left out like other pictures that the browser cannot decode', async () => {
  const [drawing, packed] = ['<svg xmlns="http://www.w3.org/2000/svg"/>', '<?xml version="1.0"?><svg/>'].map((text) =>
    Uint8Array.from(text, (letter) => letter.charCodeAt(0)),
  );
  const files = { ...cats, ...folder('pets/dogs', JPEG), ...folder('pets/dogs', packed!, 1, 'svg') };
  expect((await open(files)).preview.notes).toMatchObject([{ kind: 'pictures-undecoded', count: 1 }]);
  await expect(open({ ...cats, ...folder('pets/dogs', drawing!, 6, 'xml') })).rejects.toThrow(
    'this browser does not decode SVG pictures',
  );
});

test('folders with the same name are one class, and a note names them', async () => {
  const people = ['cats/p1', 'cats/p2', 'dogs/p1', 'dogs/p2', 'dogs/p3'].map((name) => folder(name, JPEG));
  expect((await open(Object.assign({}, ...people) as Files)).preview.notes).toEqual([
    { kind: 'folders-merged', count: 2, name: 'p1', example: 'cats/p1 and dogs/p1' },
    { kind: 'folders-merged', count: 2, name: 'p2', example: 'cats/p2 and dogs/p2' },
  ]);
});

test('files of the operating system are left out without a note', async () => {
  const system = { 'pets/Thumbs.db': JPEG, 'pets/.DS_Store': JPEG, '__MACOSX/pets/cats/._1.jpg': JPEG };
  expect((await open({ ...cats, ...folder('pets/dogs', JPEG), ...system })).preview.notes).toEqual([]);
});

test('the class of pictures in folders called "images" is the folder above, and a note says so', async () => {
  const opened = await open({ ...folder('pets/cats/images', JPEG), ...folder('pets/dogs/images', JPEG) });
  expect(countsOf(opened)).toEqual({ cats: 5, dogs: 5 });
  expect(opened.preview.notes).toMatchObject([{ kind: 'class-above', count: 10, name: 'images' }]);
  const split = await open({
    ...folder('train/cats/images', JPEG),
    ...folder('train/dogs/images', JPEG),
    ...folder('test/cats/images', JPEG),
  });
  expect([countsOf(split), split.preview.heldOut]).toEqual([{ cats: 10, dogs: 5 }, 5]);
});

test('a note names a class with a single picture, and a folder is rejected if each of its classes has a single picture', async () => {
  const owls = folder('pets/owls', JPEG, 1);
  expect((await open({ ...cats, ...owls })).preview.notes).toMatchObject([
    { kind: 'class-not-held-out', name: 'owls' },
  ]);
  await expect(open({ ...owls, ...folder('pets/cats', JPEG, 1) })).rejects.toThrow(
    'each of the 2 classes has a single sample',
  );
});

test('IDX files are read from a zip file and at any depth, and a note names other files beside them', async () => {
  const pair = {
    'mnist/train-images.idx3-ubyte': imagesFile(20, 4, 4),
    'mnist/train-labels-idx1-int': labelsFile(20),
    'mnist/readme.md': JPEG,
  };
  for (const files of [pair, { 'mnist.zip': zipFile(pair) }]) {
    const { preview } = await open(files);
    expect([preview.samples, preview.shape]).toEqual([20, [4, 4, 1]]);
    expect(preview.notes).toEqual([{ kind: 'files-ignored', count: 1, name: 'mnist', example: 'mnist/readme.md' }]);
  }
});

test.each<[string, Files, string]>([
  [
    'a table',
    { 'a.zip': zipFile({ 'data.csv': Uint8Array.of(97) }) },
    'data.csv is not a picture. It is a table. Choose the job table',
  ],
  [
    'a single array',
    { 'x.npy': npyFile([2], [1, 2]) },
    'Save samples and labels in one file: np.savez("set.npz", x=x, y=y)',
  ],
  ['an archive in an archive', { 'a.zip': zipFile({ 'b.tar': Uint8Array.of(1) }) }, 'It is an archive. Unpack it'],
  ['a text', { 'a.txt': Uint8Array.of(65) }, 'It is a text. Choose the job gpt'],
])('files without pictures are rejected with advice: %s', async (_, files, sentence) => {
  await expect(open(files)).rejects.toThrow(sentence);
});
