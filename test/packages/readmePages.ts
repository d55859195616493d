/** A project of Vite with the documents' lines for pages, their settings, and nothing else. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createServer } from 'vite';
import { onTestFinished } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '../..');
/** The stock page of TensorFlow.js to which README.md adds lines. */
const STOCK = path.join(ROOT, 'examples/modelFit');

/** Pages of the project. */
export const PAGES = {
  /** README.md's first diff: three lines. */
  lines: 'lines.html',
  /** And the library document's, with the element. */
  element: 'index.html',
  /** And the option `server`. */
  server: 'server.html',
} as const;

/** Returns the diffs of README.md and of the library's document, as lists of hunks. */
export async function documentDiffs(): Promise<string[][][]> {
  const blocks = (await documents()).matchAll(/```diff\n(.*?)```/gs);
  return Array.from(blocks, ([, block]) => block!.split(/^@@.*\n/m).map((hunk) => hunk.trimEnd().split('\n')));
}

/**
 * Returns the source with the changes of a diff.
 *
 * @throws Error if the lines of a hunk do not occur exactly once.
 */
function applyHunks(source: string, hunks: readonly (readonly string[])[]): string {
  return hunks.reduce((text, hunk) => {
    const linesWithout = (mark: string): string =>
      hunk.flatMap((line) => (line.startsWith(mark) ? [] : [`${line.slice(1)}\n`])).join('');
    const parts = text.split(linesWithout('+'));
    if (parts.length !== 2)
      throw new Error(`These lines occur ${parts.length - 1} times, not once:\n${hunk.join('\n')}`);
    return parts.join(linesWithout('-'));
  }, source);
}

/**
 * Writes the project to `folder`.
 *
 * @param port port of the signaling server, instead of the document's.
 */
export async function writePages(folder: string, port: string): Promise<void> {
  const [stock, html] = await Promise.all(
    ['page.js', 'index.html'].map((name) => readFile(path.join(STOCK, name), 'utf8')),
  );
  const [three, element] = await documentDiffs();
  const lines = applyHunks(stock!, three!);
  const withElement = applyHunks(lines, element!);
  const withServer = withElement.replace(
    'worldSize: 4,',
    `worldSize: 4, ${await inDocuments(/`(server: 'http.*?)`/, port)},`,
  );
  await mkdir(folder);
  await writeFile(path.join(folder, 'vite.config.js'), await inDocuments(/`(export default .*?)`/, port));
  for (const [name, code] of Object.entries({ lines, element: withElement, server: withServer })) {
    await writeFile(path.join(folder, `${name}.js`), code);
    const page = PAGES[name as keyof typeof PAGES];
    await writeFile(path.join(folder, page), html!.replace('./page.js', `./${name}.js`));
  }
}

/** Starts Vite's development server until the test ends. Resolves with its address. */
export async function startVite(root: string, options: { configFile?: false } = {}): Promise<string> {
  const vite = await createServer({ root, logLevel: 'error', ...options });
  onTestFinished(() => vite.close());
  await vite.listen(0);
  return vite.resolvedUrls!.local[0]!;
}

async function documents(): Promise<string> {
  const files = ['README.md', 'docs/features/library.md'];
  return (await Promise.all(files.map((file) => readFile(path.join(ROOT, file), 'utf8')))).join('\n');
}

/** Returns the group of a pattern in the documents, with the port of a running server. */
async function inDocuments(pattern: RegExp, port: string): Promise<string> {
  return pattern.exec(await documents())![1]!.replace('8080', port);
}
