import { execFile } from 'node:child_process';
import { mkdtemp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PROGRAM, writeBundle } from '../../bench/gpu/bundle/write.ts';

const run = promisify(execFile);

let folder: string;
let bundle: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'peergrad-bundle-'));
  const page = path.join(folder, 'built');
  await mkdir(page);
  await writeFile(path.join(page, 'page.html'), 'the page');
  bundle = path.join(folder, 'bundle');
  await writeBundle(bundle, page);
}, 60_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

test('a bundle runs outside of the repository, without installed packages', async () => {
  const { stdout } = await run(process.execPath, [PROGRAM, '--help'], { cwd: bundle, env: {} });
  expect(stdout).toContain('--minutes <n>');
  // The program imports it when it starts a browser.
  await run(process.execPath, ['--input-type=module', '-e', "await import('playwright-core')"], {
    cwd: bundle,
    env: {},
  });
});

test('a bundle contains the built page and licences', async () => {
  expect(await readFile(path.join(bundle, 'page/page.html'), 'utf8')).toBe('the page');
  expect(await readFile(path.join(bundle, 'THIRD-PARTY-LICENSES.txt'), 'utf8')).toContain('commander');
});
