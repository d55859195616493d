/** Builds the stock page of TensorFlow.js with the lines that README.md adds to it. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';

const ROOT = path.resolve(import.meta.dirname, '../..');
const PAGE = path.join(ROOT, 'examples/modelFit/page.js');
/** Path of the page in the build. */
export const PAGE_PATH = 'examples/modelFit/index.html';

/** Returns the lines of README.md's diff, as hunks. */
export async function readmeHunks(): Promise<string[][]> {
  const block = /```diff\n(.*?)```/s.exec(await readFile(path.join(ROOT, 'README.md'), 'utf8'))![1]!;
  return block.split(/^@@.*\n/m).map((hunk) => hunk.trimEnd().split('\n'));
}

/**
 * Returns the source with the changes of a diff.
 *
 * @throws Error if the lines of a hunk do not occur exactly once.
 */
export function applyHunks(source: string, hunks: readonly (readonly string[])[]): string {
  return hunks.reduce((text, hunk) => {
    const linesWithout = (mark: string): string =>
      hunk.flatMap((line) => (line.startsWith(mark) ? [] : [`${line.slice(1)}\n`])).join('');
    const parts = text.split(linesWithout('+'));
    if (parts.length !== 2)
      throw new Error(`These lines occur ${parts.length - 1} times, not once:\n${hunk.join('\n')}`);
    return parts.join(linesWithout('-'));
  }, source);
}

/** Builds the changed page with Vite, to `dist`. */
export async function buildReadmePage(dist: string): Promise<void> {
  const changed = applyHunks(await readFile(PAGE, 'utf8'), await readmeHunks());
  const { build } = await import('vite');
  await build({
    root: ROOT,
    logLevel: 'error',
    resolve: { alias: { peergrad: path.join(ROOT, 'src/index.ts') } },
    plugins: [{ name: 'readme', enforce: 'pre', load: (id) => (id === PAGE ? changed : undefined) }],
    build: { outDir: dist, rolldownOptions: { input: path.join(ROOT, PAGE_PATH) } },
  });
}
