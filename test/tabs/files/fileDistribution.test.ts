/**
 * Files that the host shares with all tabs: they are dropped on the host's page and distributed
 * before the run.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test, vi } from 'vitest';
import { imagesFile, labelsFile } from '../../formats/idxFiles.ts';
import { worldOfFile } from '../harness/world.ts';

vi.setConfig({ testTimeout: 90_000 });

const world = await worldOfFile();

/** Large enough to be distributed for a second or two, so that a test can close a tab meanwhile. */
const LARGE_BYTES = 12_000_000;

test('if a tab is closed while the host distributes files, all other tabs receive the files and train on them', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'peergrad-distribution-'));
  const contents = {
    't10k-images-idx3-ubyte': imagesFile(40),
    't10k-labels-idx1-ubyte': labelsFile(40),
    'notes.txt': new Uint8Array(LARGE_BYTES).fill(7),
  };
  for (const [name, bytes] of Object.entries(contents)) await writeFile(path.join(folder, name), bytes);
  const job = { job: 'mnist', batchSize: 4, maxSteps: 2, data: { kind: 'shared', files: [] } };
  const room = world.createRoom(job, 3, { min: 1, max: 4 });
  const ann = await world.join(room, 'ann');
  await ann.event('admitted');
  const ben = await world.join(room, 'ben');
  await ben.page.getByText('The host has not chosen the files yet').waitFor();
  const files = Object.keys(contents).map((name) => path.join(folder, name));
  await ann.page.locator('input[type=file]').setInputFiles(files);
  await ben.page.getByText('notes.txt').waitFor();

  const bar = ben.page.getByRole('progressbar', { name: 'ben' }).waitFor();
  const cid = await world.join(room, 'cid');
  const { generation, total } = await ann.event('distribution', ({ bytesPerRank }) =>
    bytesPerRank.some((bytes) => bytes < LARGE_BYTES),
  );
  await cid.page.close();
  await bar;
  const ends = await Promise.all([ann, ben].map((tab) => tab.event('finished')));
  for (const { result } of ends) expect(result).toMatchObject({ steps: 2, worldSize: 2 });
  expect(new Set(ends.flatMap(({ result }) => result.stateHash)).size).toBe(1);
  const later = ben.events.filter((event) => event.type === 'distribution' && event.generation > generation);
  expect(later[0]).toMatchObject({ bytesPerRank: [total, expect.toSatisfy((bytes: number) => bytes < total)] });
  expect(later.at(-1)).toMatchObject({ total, bytesPerRank: [total, total] });
  for (const tab of [ann, ben]) expect(tab.violations).toEqual([]);
  await rm(folder, { recursive: true });
});

test('files that the host shares are checked before the run, and the page shows their errors', async () => {
  const job = { job: 'table', batchSize: 4, maxSteps: 2, hidden: 4, data: { kind: 'shared', files: [] } };
  const ann = await world.join(world.createRoom(job, 1), 'ann');
  const give = (text: string) =>
    ann.page
      .locator('input[type=file]')
      .setInputFiles({ name: 'rooms.csv', mimeType: 'text/csv', buffer: Buffer.from(text) });
  await ann.event('admitted');
  await ann.page.getByRole('button', { name: 'Choose a table (CSV, Parquet or xlsx)' }).first().waitFor();
  await give('rooms,price\n1,2\n3\n');
  await ann.page.getByRole('alert').getByText('rooms.csv, line 3').waitFor();
  expect(ann.events.some(({ type }) => type === 'generation')).toBe(false);
  await give(`rooms,price\n${Array.from({ length: 40 }, (_, i) => `${i % 7},${100 * i + 50}`).join('\n')}\n`);
  await ann.event('preview', ({ preview }) => preview?.kind === 'table' && preview.rows === 40);
  expect((await ann.event('finished')).result.steps).toBe(2);
});
