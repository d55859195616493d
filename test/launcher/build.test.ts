import { mkdir, mkdtemp, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { hashOfFiles, isBuiltFrom } from '../../launcher/build.ts';

let folder: string;
const inFolder = (...names: string[]): string => path.join(folder, ...names);

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'peergrad-build-'));
  await mkdir(inFolder('src', 'app'), { recursive: true });
  await writeFile(inFolder('src', 'app', 'a.ts'), '1');
  await writeFile(inFolder('index.html'), 'page');
});
afterAll(() => rm(folder, { recursive: true }));

test('a page is built again if a name or the content of a source changes, but not if only its modification time does', async () => {
  const sources = [inFolder('index.html'), inFolder('src')];
  const first = await hashOfFiles(sources);
  await utimes(inFolder('src', 'app', 'a.ts'), new Date(), new Date(0));
  expect(await hashOfFiles(sources)).toBe(first);
  await writeFile(inFolder('src', 'app', 'a.ts'), '2');
  const second = await hashOfFiles(sources);
  await rename(inFolder('src', 'app', 'a.ts'), inFolder('src', 'a.ts'));
  const third = await hashOfFiles(sources);
  expect(new Set([first, second, third]).size).toBe(3);
});

test('hidden files, such as the locks of editors, are not sources', async () => {
  const before = await hashOfFiles([inFolder('src')]);
  await symlink('user@host.1234', inFolder('src', '.#a.ts'));
  expect(await hashOfFiles([inFolder('src')])).toBe(before);
});

test('a folder is built from its sources only if it contains a page and names these sources', async () => {
  const dist = inFolder('dist');
  await mkdir(dist);
  await writeFile(path.join(dist, 'index.html'), 'page');
  expect(await isBuiltFrom(dist, 'a1')).toBe(false);
  await writeFile(path.join(dist, '.sources'), 'a1');
  expect([await isBuiltFrom(dist, 'a1'), await isBuiltFrom(dist, 'b2')]).toEqual([true, false]);
  await rm(path.join(dist, 'index.html'));
  expect(await isBuiltFrom(dist, 'a1')).toBe(false);
});
