/**
 * Profiles of browsers, in the temporary folder. A launcher that is killed cannot remove its
 * profiles, in which pages may have stored gigabytes. The next launcher removes them.
 */
import { mkdtempSync, readlinkSync, rmSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import path from 'node:path';

/**
 * The start of the names of profiles of this machine's launchers. The id of the owner's process
 * follows. Machines and containers may share a temporary folder, but not their process ids.
 */
const PREFIX = `peergrad-profile-${lettersOf(hostname()).slice(0, 16)}-${processNamespace()}`;
/** Attempts to remove a profile. On Windows, files of a browser that has just ended are locked. */
const ATTEMPTS = { recursive: true, force: true, maxRetries: 5, retryDelay: 100 } as const;

/** Names of the profiles that this process has created. */
const own = new Set<string>();

/** Creates an empty profile, which belongs to process `pid`. */
export function createProfile(folder = tmpdir(), pid = process.pid): string {
  const profile = mkdtempSync(path.join(folder, `${PREFIX}${pid}-`));
  own.add(path.basename(profile));
  return profile;
}

/** Removes a profile, without waiting, because this process may be about to end. */
export function removeProfile(profile: string): void {
  try {
    rmSync(profile, ATTEMPTS);
  } catch {
    // A process of the browser still uses it. The next launcher removes it.
  }
}

/** Removes the profiles whose owners have ended. Another launcher may do the same. */
export async function removeAbandonedProfiles(folder = tmpdir()): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  const abandoned = names.filter((name) => {
    const [, pid] = name.startsWith(PREFIX) ? (/^(\d+)-\w+$/.exec(name.slice(PREFIX.length)) ?? []) : [];
    if (pid === undefined) return false;
    // An earlier process may have had this id: the first process of a container has id 1.
    return Number(pid) === process.pid ? !own.has(name) : !isRunning(Number(pid));
  });
  await Promise.all(abandoned.map((name) => rm(path.join(folder, name), ATTEMPTS).catch(() => {})));
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // Processes of other users cannot be signalled.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Containers may have the host name of their machine, but have process ids of their own. */
function processNamespace(): string {
  try {
    return `${lettersOf(readlinkSync('/proc/self/ns/pid'))}-`;
  } catch {
    return '';
  }
}

function lettersOf(name: string): string {
  return name.replaceAll(/[^a-z\d]/gi, '');
}
