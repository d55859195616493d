/**
 * Data files in real tabs: a test drops a bad file, expects its error, drops a good file, expects
 * its preview, and trains on it.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test, vi } from 'vitest';
import { runCli } from '../../../launcher/cli.ts';
import type { RunResult } from '../../../src/protocol/runResult.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import { npyFile } from '../../formats/npyFiles.ts';
import { pngFile } from '../../formats/pngFiles.ts';
import { zipFile } from '../../formats/zipFiles.ts';
import { idxFile } from '../../formats/idxFiles.ts';
import { type Tab, type World, worldOfFile } from '../harness/world.ts';

vi.setConfig({ testTimeout: 120_000 });

const world = await worldOfFile();

type Files = Record<string, Uint8Array | string>;

/**
 * Drops files on the page, like a user with a mouse. They replace files that were dropped before.
 */
async function drop(tab: Tab, files: Files): Promise<void> {
  const given = Object.entries(files).map(([name, body]) => [name, [...Buffer.from(body)]] as const);
  await tab.page.locator('.drop').evaluate((zone, all) => {
    const dataTransfer = new DataTransfer();
    for (const [name, bytes] of all) dataTransfer.items.add(new File([Uint8Array.from(bytes)], name));
    zone.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
  }, given);
}

interface Case {
  job: Parameters<World['createRoom']>[0];
  bad: Files;
  /** The error that the page shows for `bad`, with the place in the file. */
  sentence: string;
  good: Files;
  /** A text of the preview that the page shows for `good` before the run. */
  seen: string;
  /** Checks the first tab's page after the run. */
  after?: (tab: Tab) => Promise<void>;
}

const LEARN = { data: { kind: 'files' }, batchSize: 8, epochs: 100, maxSteps: 40, learningRate: 0.02, hidden: 8 };
const upTo = (most: number): number[] => Array.from({ length: most }, (_, i) => i);

async function train(tabs: number, { job, bad, sentence, good, seen, after }: Case): Promise<RunResult[]> {
  const room = world.createRoom({ ...LEARN, ...job }, tabs);
  const all = await Promise.all(upTo(tabs).map((i) => world.join(room, `tab-${i}`)));
  const [first, ...others] = all;
  await drop(first!, bad);
  await first!.page.getByRole('alert').getByText(sentence).waitFor();
  await drop(first!, good);
  await first!.page.getByText(seen).first().waitFor();
  await Promise.all(others.map((tab) => drop(tab, good)));
  const results = await Promise.all(all.map(async (tab) => (await tab.event('finished')).result));
  await after?.(first!);
  expect(all.flatMap(({ violations }) => violations)).toEqual([]);
  for (const { stateHash } of results) expect(new Set(stateHash)).toEqual(new Set([results[0]!.stateHash[0]]));
  return results;
}

test('two tabs train on a CSV file and predict an amount from numbers and words', async () => {
  const rows = upTo(60).map(
    (i) => `${i % 7},${i % 3 ? 'old' : 'new'},${1000 * (i % 7) + (i % 3 ? 0 : 500) + 5000 + (i % 2)}`,
  );
  const [result, other] = await train(2, {
    job: { job: 'table', loss: 'huber', metrics: ['mae', 'r2'] },
    bad: { 'houses.csv': 'rooms,age,price\n1,old,2\n3,new\n' },
    sentence: 'houses.csv, line 3: 2 fields, but line 1 has 3',
    good: { 'houses.csv': `rooms,age,price\n${rows.join('\n')}\n` },
    seen: '60 rows and 3 columns.',
    after: async ({ page }) => {
      await page.getByText('is the mean absolute error on held-out samples').waitFor();
      // The page shows the curve of the first metric. The other curves are shown after a click.
      await page.getByRole('img', { name: /^Mean absolute error by step/ }).waitFor();
      await page.getByRole('button', { name: 'R²' }).click();
      await page.getByRole('img', { name: /^R² by step: 0\.\d{3} now/ }).waitFor();
    },
  });
  expect(result).toMatchObject({ worldSize: 2, steps: 40, accuracy: null });
  // Prices differ from their mean by 2000 on average, so the model must be better than the mean.
  expect(result!.metrics!.mae).toBeLessThan(1000);
  expect(result!.metrics!.r2).toBeGreaterThan(0.5);
  expect(other!.metrics).toEqual(result!.metrics);
});

test('before a run, the page shows how a CSV file is read, and which rows and columns are left out', async () => {
  const tab = await world.join(world.createRoom({ ...LEARN, job: 'table' }, 2), 'reader');
  const rows = upTo(120).map((i) => `street ${i};;${i},25;${i % 12 ? 1000 * i : '?'}`);
  await drop(tab, { 'houses.csv': `address;notes;size;price\n${rows.join('\n')}\n` });
  const { page } = tab;
  await page.getByText('120 rows and 4 columns.').waitFor();
  await page.getByText('10 rows are left out, because the column to predict is “?” in 10.').waitFor();
  await page.getByText('1 column is left out (too many different words): address (“street 0”).').waitFor();
  await page.getByText('1 column is left out (no values): notes.').waitFor();
  await page.getByText('numbers, with a decimal comma').waitFor();
  await drop(tab, {
    'game.csv': `${upTo(20)
      .map((i) => `${'xo'[i % 2]},${i % 3 ? 'win' : 'loss'}`)
      .join('\n')}\n`,
  });
  await page.getByText('The first line is data, not names, so columns are numbered.').waitFor();
  expect(tab.violations).toEqual([]);
});

/** Returns a CSV file with one kind of fruit: apples are small, pears are large. */
const fruits = (i: number): string =>
  upTo(40)
    .map((k) => `${10 * i + (k % 7)},${i ? 'pear' : 'apple'}`)
    .join('\n');

test('two tabs train on their own CSV files, although each file lacks some of the classes', async () => {
  const job = { job: 'table', ...LEARN, data: { kind: 'federated' }, patience: null };
  const room = world.createRoom(job, 2);
  // One of the two files is loaded from a server by its URL.
  const tab = await world.join(room, 'own-0');
  const folder = await mkdtemp(path.join(tmpdir(), 'peergrad-data-'));
  const own = path.join(folder, 'pears.csv');
  await writeFile(own, `size,kind\n${fruits(1)}\n`);
  const out: string[] = [];
  const io = { out: (line: string) => void out.push(line), err: () => {}, terminal: null };
  const joined = runCli(
    ['join', `http://localhost:${world.server.port}/#${room}`, '--backend', 'wasm', '--data', own],
    { ...io, signal: new AbortController().signal },
    {},
  );
  await drop(tab, { 'apples.csv': 'size,kind\n1,apple\n' });
  await tab.page
    .getByRole('alert')
    .getByText('1 row is too few for training and evaluation. Each tab needs at least 10')
    .waitFor();
  await tab.page.getByText('The files stay in this tab, and only this tab trains on them.').waitFor();
  await drop(tab, { 'apples.csv': `size,kind\n${fruits(0)}\n` });
  const { result } = await tab.event('finished');
  expect(await joined).toBe(0);
  await rm(folder, { recursive: true });
  expect(out.join('\n')).toContain('2 ranks');
  expect(tab.violations).toEqual([]);
  expect(result).toMatchObject({ worldSize: 2, steps: 40, accuracy: 1 });
  expect(new Set(result.stateHash).size).toBe(1);
  const [apples, pears] = [
    [8, 0],
    [0, 8],
  ];
  expect(result.confusion).toEqual({ classes: ['apple', 'pear'], counts: [apples, pears] });
});

test('two tabs train on a zip file of pictures with a folder for each class, and leave out a damaged picture', async () => {
  const pictures: Files = Object.fromEntries(
    upTo(20).map((i) => [
      `${i % 2 ? 'red' : 'blue'}/${i}.png`,
      i % 2 ? pngFile(250 - i, i, 9) : pngFile(i, 9, 250 - i),
    ]),
  );
  const zip = (files: Files): Uint8Array => zipFile(files as Record<string, Uint8Array>);
  const [result] = await train(2, {
    job: { job: 'images', side: 8, augment: ['flip', 'shift', 'colour'] },
    bad: { 'pictures.zip': zip(pictures).subarray(0, 300) },
    sentence: 'pictures.zip ends too early, at byte 300',
    good: { 'pictures.zip': zip({ ...pictures, 'red/0.png': Buffer.from('no picture') }) },
    seen: '1 picture is left out (damaged',
  });
  expect(result).toMatchObject({ worldSize: 2, steps: 40, accuracy: 1, confusion: { classes: ['blue', 'red'] } });
  expect(result!.confusion!.counts.flat().reduce((sum, count) => sum + count)).toBe(4);
});

test('a picture with different contents in one tab is named by both tabs', async () => {
  const pictures: Files = Object.fromEntries(
    upTo(20).map((i) => [`${i % 2 ? 'red' : 'blue'}/${i}.png`, i % 2 ? pngFile(250, i, 9) : pngFile(i, 9, 250)]),
  );
  const others: Files = { ...pictures, 'red/3.png': pngFile(250, 4, 9) };
  expect(others['red/3.png']).toHaveLength(pictures['red/3.png']!.length);
  const room = world.createRoom({ ...LEARN, job: 'images', side: 8, hashEvery: 1 }, 2);
  const tabs = await Promise.all(upTo(2).map((i) => world.join(room, `tab-${i}`)));
  await Promise.all(tabs.map((tab, i) => drop(tab, i === 0 ? pictures : others)));
  const messages = await Promise.all(tabs.map(async (tab) => (await tab.event('failed')).message));
  const named = expect.stringMatching(/red\/3\.png has the same size, but other contents on rank 0 .* and rank 1 /);
  expect(messages).toEqual([named, named]);
});

test('two tabs train on a pair of IDX files', async () => {
  const images = idxFile(
    [40, 4, 4],
    Uint8Array.from({ length: 640 }, (_, k) => ((k >> 4) % 2 ? 200 : 20) + (k % 9)),
  );
  const [result] = await train(2, {
    job: { job: 'images', model: 'cnn' },
    bad: { 'a-images-idx3-ubyte': images.subarray(0, 300) },
    sentence:
      'ends too early: 40 x 4 x 4 elements of type u1 start at byte 16 and must end at byte 656, but the file ends at byte 300',
    good: {
      'a-images-idx3-ubyte': images,
      'a-labels-idx1-ubyte': idxFile(
        [40],
        Uint8Array.from({ length: 40 }, (_, i) => i % 2),
      ),
    },
    seen: '4 × 4 × 1 each.',
  });
  expect(result).toMatchObject({ worldSize: 2, accuracy: 1 });
});

test('two tabs train on an npz file of features', async () => {
  const x = npyFile(
    [40, 2],
    upTo(40).flatMap((i) => [i % 2 ? 5 : 1, i]),
  );
  const y = npyFile(
    [40],
    upTo(40).map((i) => i % 2),
    { type: 'i8' },
  );
  const [result] = await train(2, {
    job: { job: 'images' },
    bad: { 'set.npz': zipFile({ 'x.npy': x.subarray(0, 200), 'y.npy': y }) },
    sentence:
      'set.npz: x.npy ends too early: an array of shape (40, 2) and type f4 starts at byte 128 and must end at byte 448, but the file ends at byte 200',
    good: { 'set.npz': zipFile({ 'x.npy': x, 'y.npy': y }, { method: 'stored' }) },
    seen: '2 numbers each.',
  });
  expect(result).toMatchObject({ worldSize: 2, accuracy: 1 });
});

test('two tabs train on a text and learn to continue it', async () => {
  const text = 'the cat sat on the mat. '.repeat(20);
  const [result] = await train(2, {
    job: { job: 'gpt', gpt: { ...DEFAULT_JOB.gpt, width: 16, context: 8 }, maxSteps: 3, batchSize: 2 },
    bad: { 'cat.txt': Buffer.concat([Buffer.from(text), Buffer.of(0xff)]) },
    sentence: 'cat.txt is not UTF-8 text: byte 480 (255) does not belong to a character',
    good: { 'cat.txt': text },
    seen: '480 characters; the vocabulary has 11 tokens.',
  });
  expect(result!.losses[0]).toBeCloseTo(Math.log(11), 0);
  expect(result!.samples!.map(({ steps }) => steps)).toContain(3);
});
