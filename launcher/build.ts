/** Builds the pages with Vite if they are missing or older than their sources. */
import { existsSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { messageOf, PeergradError } from '../src/util/errors.ts';
import type { Io } from './io.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Folder of the built pages. */
export const DIST = path.join(ROOT, 'dist');
const SOURCES = ['index.html', 'vite.config.ts', 'package.json', 'src', 'examples'];

/** Builds {@link DIST} if it is out of date. @throws (rejects) PeergradError if the build fails. */
export async function ensureBuilt(io: Io): Promise<void> {
  // The npm package contains the built pages without their sources, so there is nothing to build.
  if (!existsSync(path.join(ROOT, 'index.html'))) return;
  const changes = await Promise.all(SOURCES.map((name) => changedAt(path.join(ROOT, name))));
  if ((await changedAt(path.join(DIST, 'index.html'))) >= Math.max(...changes)) return;
  io.err('Building the page ...');
  try {
    // Vite is loaded only when needed, because loading it takes longer than most commands.
    const { build } = await import('vite');
    await build({ root: ROOT, logLevel: 'warn', build: { rolldownOptions: { checks: { bundlerTimings: false } } } });
  } catch (error) {
    throw new PeergradError(`The page could not be built: ${messageOf(error)}`);
  }
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
