import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readlink, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createProfile, removeAbandonedProfiles, removeProfile } from '../../launcher/browser/profiles.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'peergrad-profiles-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** Creates a profile with a stored file, as if process `pid` owned it, and returns its name. */
async function profileOf(pid: number): Promise<string> {
  const profile = createProfile(folder, pid);
  await mkdir(path.join(profile, 'Default/File System'), { recursive: true });
  await writeFile(path.join(profile, 'Default/File System/pictures'), 'pixels');
  return path.basename(profile);
}

test('profiles of processes that have ended are removed, even by two launchers at once', async () => {
  const ended = spawnSync(process.execPath, ['--version']).pid;
  await profileOf(ended);
  await profileOf(ended);
  const [own, parent] = [await profileOf(process.pid), await profileOf(process.ppid)];
  const others = ['peergrad-profiles-x', `${own.replace(`${process.pid}`, `${ended}`)}.txt`, 'peergrad-profile'];
  for (const name of others) await writeFile(path.join(folder, name), '');
  // Another machine may use the same folder, and its processes are not known here.
  const elsewhere = own.replace(/^peergrad-profile-.*-\d+-/, `peergrad-profile-another-host-${ended}-`);
  await mkdir(path.join(folder, elsewhere));
  await Promise.all([removeAbandonedProfiles(folder), removeAbandonedProfiles(folder)]);
  expect((await readdir(folder)).toSorted()).toEqual([own, parent, elsewhere, ...others].toSorted());
});

test('a profile is removed with its files, and may be removed twice', async () => {
  const profile = path.join(folder, await profileOf(process.pid));
  removeProfile(profile);
  removeProfile(profile);
  expect(existsSync(profile)).toBe(false);
});

test('without a temporary folder, nothing is removed and nothing fails', async () => {
  await expect(removeAbandonedProfiles(path.join(folder, 'missing'))).resolves.toBeUndefined();
});

test.runIf(process.platform === 'linux')(
  'profiles of another container with the same host name are kept, because its processes are not known here',
  async () => {
    const ended = spawnSync(process.execPath, ['--version']).pid;
    const own = path.basename(createProfile(folder, ended));
    const namespace = /\d+/.exec(await readlink('/proc/self/ns/pid'))![0];
    const elsewhere = own.replace(namespace, `${Number(namespace) + 1}`);
    await mkdir(path.join(folder, elsewhere));
    await removeAbandonedProfiles(folder);
    expect(await readdir(folder)).toEqual([elsewhere]);
  },
);

test('a profile of an earlier process with the same id is removed: the first process of a container always has id 1', async () => {
  const own = await profileOf(process.pid);
  const earlier = own.replace(/\w+$/, 'Aa0000');
  await mkdir(path.join(folder, earlier));
  await removeAbandonedProfiles(folder);
  expect(await readdir(folder)).toEqual([own]);
});
