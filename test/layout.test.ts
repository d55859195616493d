/** Checks the size of files and folders (see "Layout" in CONTRIBUTING.md). */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '..');
const LINES = 600;
const FILES = 30;

/**
 * Folders with code that users run or import. Tests and benchmarks are not checked, because they
 * are lists of cases.
 */
const FOLDERS = ['src', 'signaling', 'launcher', 'tools'];

const entries = FOLDERS.flatMap((folder) =>
  readdirSync(path.join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => ({ folder: path.relative(ROOT, entry.parentPath), name: entry.name })),
);

test(`a file has at most ${LINES} lines`, () => {
  const code = entries.filter(({ name }) => /\.tsx?$/.test(name)).map(({ folder, name }) => `${folder}/${name}`);
  expect(code.length).toBeGreaterThan(300);
  const long = code.filter((file) => readFileSync(path.join(ROOT, file), 'utf8').split('\n').length - 1 > LINES);
  expect(long).toEqual([]);
});

test(`a folder has at most ${FILES} files`, () => {
  const counts = new Map<string, number>();
  for (const { folder } of entries) counts.set(folder, (counts.get(folder) ?? 0) + 1);
  expect([...counts].filter(([, files]) => files > FILES)).toEqual([]);
});
