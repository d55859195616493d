/**
 * Builds the files of the package in the current folder. npm runs this program before it packs the
 * package (`prepack`). The package's `exports` name the entries of the library, so no other list
 * exists.
 */
import { execFile } from 'node:child_process';
import { cp, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { rolldown, type InputOptions, type OutputOptions, type RolldownOutput } from 'rolldown';
import { DIST, ensureBuilt } from '../../launcher/build.ts';
import { LICENCES, licencesOf } from './licences.ts';
import { workerEntries } from './workerEntries.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');

interface Manifest {
  name: string;
  exports?: Record<string, { types: string; default: string } | string>;
  dependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
}

/**
 * Compiles the library twice: file by file, so that a user's bundler drops the files that a page
 * does not import; and as one file in `dist/` for each export, for pages without a bundler.
 */
async function buildLibrary(manifest: Manifest): Promise<void> {
  const entries = Object.values(manifest.exports ?? {})
    .filter((entry) => typeof entry === 'object')
    .map((entry) => ({ file: entry.default, source: entry.types.replace('./lib/', 'src/').replace('.d.ts', '.ts') }));
  await bundle(
    'lib',
    manifest,
    {
      input: entries.filter(({ file }) => file.startsWith('./lib/')).map(({ source }) => source),
      platform: 'browser',
      plugins: [workerEntries()],
    },
    {
      preserveModules: true,
      preserveModulesRoot: path.join(ROOT, 'src'),
      // npm packs no folder with the name node_modules.
      entryFileNames: ({ name }) => `${name.replace(/^node_modules\//, 'vendor/')}.js`,
    },
  );
  const files = entries.filter(({ file }) => file.startsWith('./dist/'));
  await bundleFiles(manifest, new Map(files.map(({ file, source }) => [path.basename(file), source])));
  await promisify(execFile)(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.lib.json'], {
    cwd: ROOT,
  });
}

/**
 * Writes each source as one file of `dist/`, with the dependencies of the package, and each worker
 * as a file beside it. Peer dependencies stay imports.
 */
async function bundleFiles({ peerDependencies }: Manifest, sources: Map<string, string>): Promise<void> {
  const output: OutputOptions = { codeSplitting: false, minify: true };
  const addWorker = (id: string): void => void sources.set(`${path.parse(id).name}.js`, id);
  await rm('dist', { recursive: true, force: true });
  const bundles: RolldownOutput['output'][] = [];
  // A worker that a bundle adds is bundled, too.
  for (const [file, input] of sources) {
    const plugins = [workerEntries(addWorker)];
    const options: InputOptions = { input, platform: 'browser', plugins };
    bundles.push(await write(peerDependencies, options, { ...output, file: path.resolve('dist', file) }));
  }
  await writeFile(path.join('dist', LICENCES), await licencesOf(bundles.flat()));
}

/** Compiles the launcher and the signaling server, and adds the built page. */
async function buildCli(manifest: Manifest): Promise<void> {
  await bundle(
    'lib',
    manifest,
    // A bundle needs the ES modules of packages, also for Node.
    { input: 'launcher/main.ts', platform: 'node', resolve: { mainFields: ['module', 'main'] } },
    // The launcher finds the page in the folder above its own files.
    { banner: ({ isEntry }) => (isEntry ? '#!/usr/bin/env node' : ''), chunkFileNames: '[name].js' },
  );
  const { signal } = new AbortController();
  await ensureBuilt({ out: console.log, err: console.error, terminal: null, signal });
  await rm('dist', { recursive: true, force: true });
  await cp(DIST, 'dist', { recursive: true });
}

/**
 * Writes a folder. Dependencies of the package stay imports; other packages become part of it.
 */
async function bundle(folder: string, manifest: Manifest, input: InputOptions, output: OutputOptions): Promise<void> {
  await rm(folder, { recursive: true, force: true });
  const installed = { ...manifest.dependencies, ...manifest.peerDependencies };
  const files = await write(installed, input, { dir: path.resolve(folder), ...output });
  await writeFile(path.join(folder, LICENCES), await licencesOf(files));
  await cp(path.join(ROOT, 'LICENSE'), 'LICENSE');
}

async function write(
  installed: Record<string, string> = {},
  input: InputOptions,
  output: OutputOptions,
): Promise<RolldownOutput['output']> {
  const build = await rolldown({
    cwd: ROOT,
    // The launcher builds the page with Vite in this repository only.
    external: [...Object.keys(installed), 'vite'].map((name) => new RegExp(`^${name}(/|$)`)),
    ...input,
  });
  const { output: files } = await build.write(output);
  await build.close();
  return files;
}

const manifest = JSON.parse(await readFile('package.json', 'utf8')) as Manifest;
await (manifest.exports ? buildLibrary(manifest) : buildCli(manifest));
