/** Pictures that the host shares over slow lines: tabs train while the rest of them arrives. */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { pngFile } from '../../formats/pngFiles.ts';
import { zipFile } from '../../formats/zipFiles.ts';
import { type Tab, worldOfFile } from '../harness/world.ts';

vi.setConfig({ testTimeout: 120_000 });

const world = await worldOfFile({ serverLinks: 'only', serverLinksRate: 1 });

const PICTURES = 160;

/** Returns a picture of one colour. Bytes behind its end, which decoders ignore, make it large. */
function picture(at: number, bytes: number): Uint8Array<ArrayBuffer> {
  const png = at % 2 === 0 ? pngFile(200, at, 20) : pngFile(20, at, 200);
  return new Uint8Array(Buffer.concat([png, randomBytes(bytes)]));
}

/** Opens a room of two tabs, the first of which shares a zip file of pictures. */
async function share({
  bytes = 80_000,
  epochs = 2,
  nodes = null as { min: number; max: number } | null,
} = {}): Promise<{ room: string; ann: Tab; ben: Tab }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'peergrad-pictures-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const names = Array.from({ length: PICTURES }, (_, i) => `pets/${i % 2 === 0 ? 'cats' : 'dogs'}/${i}.png`);
  const zip = path.join(folder, 'pets.zip');
  await writeFile(
    zip,
    zipFile(Object.fromEntries(names.map((name, i) => [name, picture(i, bytes)])), { method: 'stored' }),
  );
  const job = {
    ...{ job: 'images', side: 8, channels: 3, hidden: 8, batchSize: 2, epochs, augment: null },
    data: { kind: 'shared', files: [] },
  };
  const room = world.createRoom(job, 2, nodes);
  const ann = await world.join(room, 'ann');
  await ann.event('admitted');
  const ben = await world.join(room, 'ben');
  await ann.page.getByLabel('Choose files').setInputFiles(zip);
  return { room, ann, ben };
}

async function finish(tabs: readonly Tab[]): Promise<void> {
  const ends = await Promise.all(tabs.map((tab) => tab.event('finished')));
  expect(new Set(ends.flatMap(({ result }) => result.stateHash)).size).toBe(1);
  for (const tab of tabs) expect(tab.violations).toEqual([]);
}

test('tabs train on the first pictures while the others arrive, and the pages show how many bytes have arrived', async () => {
  const { ann, ben } = await share();
  await finish([ann, ben]);
  const stepped = ben.events.findIndex(({ type }) => type === 'step');
  const files = ben.events.flatMap((event, at) => (event.type === 'distribution' ? [{ ...event, at }] : []));
  const before = files.findLast(({ at }) => at < stepped)!;
  expect(before.bytesPerRank[1]).toBeLessThan(before.total / 2);
  expect(files.at(-1)).toMatchObject({ total: before.total, bytesPerRank: [before.total, before.total] });
  expect(files.some(({ at }) => at > stepped)).toBe(true);
});

test('a tab that joins meanwhile receives the pictures, too, and all finish with the same model', async () => {
  const { room, ann, ben } = await share({ bytes: 20_000, epochs: 40, nodes: { min: 1, max: 4 } });
  await ben.event('step');
  const cid = await world.join(room, 'cid');
  await cid.event('step');
  await finish([ann, ben, cid]);
  const steps = new Map(ann.events.flatMap((event) => (event.type === 'begin' ? [[event.step, event] as const] : [])));
  const samples = [...steps.values()].reduce((sum, one) => sum + one.samples, 0);
  expect(samples).toBe(40 * 128);
});

test('if the host leaves meanwhile, the other tabs say who has left and which file is incomplete', async () => {
  const { ann, ben } = await share({ nodes: { min: 1, max: 4 } });
  await ben.event('step');
  await ann.page.close();
  const { message } = await ben.event('failed');
  expect(message).toMatch(/ann had all files and left\. No rank has all of pets\.zip: \d+ of \d+ slices are missing/);
});
