/**
 * Runs the training loop of docs/features/library.md unchanged: two ranks in one Node process with
 * links in memory, without a server. test/packages runs the same lines in two tabs.
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '..');
const STEPS = 30;
const RANKS = 2;

const sourceOf = (file: string): string => JSON.stringify(pathToFileURL(path.join(ROOT, file)).href);

/**
 * Replaces the package: initProcessGroup returns a group that is already linked, without a server.
 */
const PEERGRAD = `
export * from ${sourceOf('src/index.ts')};
export const initProcessGroup = () => Promise.resolve(globalThis.groups.shift());
`;

/**
 * A program that runs the example once per rank. Its standard output has the losses of all ranks.
 */
const MAIN = `
import { runWorld } from ${sourceOf('src/testing/index.ts')};
globalThis.location = { origin: 'http://localhost' };
globalThis.groups = [];
await runWorld(${RANKS}, async (group) => {
  globalThis.groups.push(group);
  await import('./example.ts?rank=' + group.rank);
});
`;

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'peergrad-loop-'));
  const peergrad = path.join(folder, 'node_modules/peergrad');
  await mkdir(peergrad, { recursive: true });
  await symlink(path.join(ROOT, 'node_modules/@tensorflow'), path.join(folder, 'node_modules/@tensorflow'), 'dir');
  const document = await readFile(path.join(ROOT, 'docs/features/library.md'), 'utf8');
  const example = /## Training loop\n.*?```ts\n(.*?)```/s.exec(document)![1]!;
  const files = {
    'package.json': '{ "type": "module" }',
    'example.ts': example,
    'main.ts': MAIN,
    'node_modules/peergrad/package.json': '{ "type": "module", "exports": "./index.js" }',
    'node_modules/peergrad/index.js': PEERGRAD,
  };
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(folder, name), text);
});

afterAll(() => rm(folder, { recursive: true }));

test('the documented training loop trains one model on two ranks', { timeout: 60_000 }, async () => {
  const tsx = pathToFileURL(path.join(ROOT, 'node_modules/tsx/dist/loader.mjs')).href;
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', tsx, 'main.ts'], { cwd: folder });
  const losses = stdout.match(/^\d+\.\d+(e-\d+)?$/gm)!.map(Number);
  expect(losses).toHaveLength(STEPS * RANKS);
  // The loss of a step is the mean over the samples of all ranks, so both ranks print the same
  // values.
  expect(new Set(losses).size).toBe(STEPS);
  expect(losses.at(-1)).toBeLessThan(losses[0]! / 2);
});
