/**
 * Writes `bench gpu` to a folder that can be copied to a machine without a network: a program for
 * Node, the built page, and playwright-core, which starts the browser.
 */
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { rolldown } from 'rolldown';
import { LICENCES, licencesOf } from '../../../tools/packages/licences.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');
export const PROGRAM = 'bench-gpu.mjs';

/** Parts of playwright-core that only its own commands, and compilers, use. */
const UNUSED = ['bin', 'types', path.join('lib', 'vite')];

/**
 * Resolves with the command that runs the bundle. Files of an earlier bundle are replaced.
 *
 * @param page folder of the built page.
 */
export async function writeBundle(folder: string, page: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  await cp(page, path.join(folder, 'page'), { recursive: true });
  const playwright = path.dirname(createRequire(import.meta.url).resolve('playwright-core/package.json'));
  await cp(playwright, path.join(folder, 'node_modules/playwright-core'), {
    recursive: true,
    filter: (file) => !UNUSED.includes(path.relative(playwright, file)),
  });
  const build = await rolldown({
    cwd: ROOT,
    input: path.join(import.meta.dirname, 'main.ts'),
    platform: 'node',
    // A bundle needs the ES modules of packages, also for Node.
    resolve: { mainFields: ['module', 'main'] },
    // playwright-core reads files of its folder, so it is copied.
    external: /^playwright-core(\/|$)/,
    logLevel: 'silent',
  });
  const { output } = await build.write({ dir: folder, entryFileNames: PROGRAM, chunkFileNames: '[name].mjs' });
  await build.close();
  await writeFile(path.join(folder, LICENCES), await licencesOf(output));
  await cp(path.join(ROOT, 'LICENSE'), path.join(folder, 'LICENSE'));
  return `node ${path.join(folder, PROGRAM)} --gpu hardware --out gpu.json`;
}
