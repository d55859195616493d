import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { TurnServer } from '../../tools/network/turnServer.ts';

let folder: string;
/** Folder for temporary files. */
let temporary: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'peergrad-test-'));
  temporary = path.join(folder, 'tmp');
  await mkdir(temporary);
  vi.stubEnv('TMPDIR', temporary);
  vi.stubEnv('PATH', `${folder}:${process.env['PATH']}`);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true });
});

/** Replaces coturn by a shell script. */
async function install(script: string): Promise<void> {
  await writeFile(path.join(folder, 'turnserver'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
}

/** A script that stays up, and whose process id is in the file `pid`. */
const serving = (): string => `echo $$ > ${folder}/pid; echo 'UDP listener opened'; exec sleep 60`;

test('a TURN server removes its files when it stops', async () => {
  await install(serving());
  const server = await TurnServer.start('secret');
  expect(await readdir(temporary)).toHaveLength(1);
  await server.stop();
  expect(await readdir(temporary)).toEqual([]);
});

test('a TURN server that ends while it starts is reported, and its files are removed', async () => {
  await install('exit 3');
  await expect(TurnServer.start('secret')).rejects.toThrow('turnserver has ended (3).');
  expect(await readdir(temporary)).toEqual([]);
});

test('a TURN server that was killed is reported when it is stopped', async () => {
  await install(serving());
  const server = await TurnServer.start('secret');
  process.kill(Number(await readFile(path.join(folder, 'pid'), 'utf8')), 'SIGKILL');
  await expect(server.stop()).rejects.toThrow('had ended before it was stopped (SIGKILL)');
  expect(await readdir(temporary)).toEqual([]);
});

test('a TURN server that has ended without an error is reported when it is stopped', async () => {
  await install(`echo 'UDP listener opened'; until [ -e ${folder}/end ]; do sleep 0.01; done`);
  const server = await TurnServer.start('secret');
  await writeFile(path.join(folder, 'end'), '');
  expect(await server.ended).toBe(0);
  await expect(server.stop()).rejects.toThrow('had ended before it was stopped (0)');
  expect(await readdir(temporary)).toEqual([]);
});
