/** Builds the pages with Vite if they are missing or were built from other sources. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { errorMessageOf, PeergradError } from '../src/util/errors.ts';
import type { Io } from './io.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Folder of the built pages. */
export const DIST = path.join(ROOT, 'dist');
/**
 * Name of the file with the hash of the sources from which the pages were built. Vite removes this
 * file together with the pages when it rebuilds them.
 */
const BUILT_FROM = '.sources';
const SOURCES = ['index.html', 'vite.config.ts', 'package.json', 'src', 'examples'];

/** Builds {@link DIST} if it is out of date. @throws (rejects) PeergradError if the build fails. */
export async function ensureBuilt(io: Io): Promise<void> {
  // The npm package contains the built pages without their sources, so there is nothing to build.
  if (!existsSync(path.join(ROOT, 'index.html'))) return;
  const sources = SOURCES.map((name) => path.join(ROOT, name));
  const page = path.join(DIST, 'index.html');
  if ((await changedAt(page)) >= Math.max(...(await Promise.all(sources.map(changedAt))))) return;
  // Hashes are compared too, because a checkout gives unchanged files new times.
  const hash = await hashOfFiles(sources);
  if (await isBuiltFrom(DIST, hash)) return utimes(page, new Date(), new Date());
  io.err('Building the page ...');
  try {
    // Vite is loaded only when needed, because loading it takes longer than most commands.
    const { build } = await import('vite');
    await build({ root: ROOT, logLevel: 'warn', build: { rolldownOptions: { checks: { bundlerTimings: false } } } });
    await writeFile(path.join(DIST, BUILT_FROM), hash);
  } catch (error) {
    throw new PeergradError(`The page could not be built: ${errorMessageOf(error)}`);
  }
}

/** Resolves with whether a folder has the pages that were built from the sources of this hash. */
export async function isBuiltFrom(dist: string, hash: string): Promise<boolean> {
  // `rm -r dist/*` leaves the hidden file.
  if (!existsSync(path.join(dist, 'index.html'))) return false;
  return hash === (await readFile(path.join(dist, BUILT_FROM), 'utf8').catch(() => null));
}

/** Returns a hash of the names and contents of files, and of all visible files in folders. */
export async function hashOfFiles(paths: readonly string[]): Promise<string> {
  const hash = createHash('sha256');
  const add = async (file: string): Promise<void> => {
    if (!(await stat(file)).isDirectory())
      return void hash.update(`${path.basename(file)}\n`).update(await readFile(file));
    hash.update(`${path.basename(file)}/\n`);
    // Editors lock a file with a hidden link to nothing.
    const names = (await readdir(file)).filter((name) => !name.startsWith('.'));
    for (const name of names.sort()) await add(path.join(file, name));
    hash.update('..\n');
  };
  for (const file of paths) await add(file);
  return hash.digest('hex');
}

/**
 * Returns the time in milliseconds at which a file, or anything in a folder, was last changed; 0 if
 * it does not exist.
 */
async function changedAt(file: string): Promise<number> {
  try {
    const { mtimeMs } = await stat(file);
    // The folder's own time is included, because it changes when files are removed.
    const inside = (await stat(file)).isDirectory() ? await readdir(file) : [];
    return Math.max(mtimeMs, ...(await Promise.all(inside.map((name) => changedAt(path.join(file, name))))));
  } catch {
    return 0;
  }
}
