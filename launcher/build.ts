/** The built pages: made with Vite when they are missing or older than their sources. */
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

/** Makes {@link DIST} what the sources say. @throws PeergradError where the build fails. */
export async function ensureBuilt(io: Io): Promise<void> {
  // The package that npm installs brings the page built, and not what it is built from.
  if (!existsSync(path.join(ROOT, 'index.html'))) return;
  const changes = await Promise.all(SOURCES.map((name) => changedAt(path.join(ROOT, name))));
  if ((await changedAt(path.join(DIST, 'index.html'))) >= Math.max(...changes)) return;
  io.err('Building the page ...');
  try {
    // Loaded only when needed: it takes longer to load than most commands to run.
    const { build } = await import('vite');
    await build({ root: ROOT, logLevel: 'warn', build: { rolldownOptions: { checks: { bundlerTimings: false } } } });
  } catch (error) {
    throw new PeergradError(`The page could not be built: ${messageOf(error)}`);
  }
}

/** When a file, or anything in a folder, changed last, milliseconds; 0 where there is nothing. */
async function changedAt(file: string): Promise<number> {
  try {
    const { mtimeMs } = await stat(file);
    // A folder's own time tells of files that were removed.
    const inside = (await stat(file)).isDirectory() ? await readdir(file) : [];
    return Math.max(mtimeMs, ...(await Promise.all(inside.map((name) => changedAt(path.join(file, name))))));
  } catch {
    return 0;
  }
}
