/**
 * Builds what npm packs of the package in the current folder. npm starts it before it packs
 * (`prepack`). The package's `exports` name the entries of the library, so no other list exists.
 */
import { execFile } from 'node:child_process';
import { cp, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { rolldown, type InputOptions, type OutputOptions } from 'rolldown';
import { DIST, ensureBuilt } from '../../launcher/build.ts';
import { LICENCES, licencesOf } from './licences.ts';
import { workerEntries } from './workerEntries.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');

interface Manifest {
  name: string;
  exports?: Record<string, { default?: string } | string>;
  dependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
}

/**
 * Compiles the library file by file, so that a user's bundler drops the files that a page does not
 * import.
 */
async function buildLibrary(manifest: Manifest): Promise<void> {
  const files = Object.values(manifest.exports ?? {}).flatMap((entry) =>
    typeof entry === 'object' && entry.default !== undefined ? [entry.default] : [],
  );
  const input = files.map((file) => file.replace('./lib/', 'src/').replace(/\.js$/, '.ts'));
  await bundle(
    manifest,
    { input, platform: 'browser', plugins: [workerEntries()] },
    {
      preserveModules: true,
      preserveModulesRoot: path.join(ROOT, 'src'),
      // npm packs no folder with the name node_modules.
      entryFileNames: ({ name }) => `${name.replace(/^node_modules\//, 'vendor/')}.js`,
    },
  );
  await promisify(execFile)(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.lib.json'], {
    cwd: ROOT,
  });
}

/** Compiles the launcher and the signaling server, and adds the built page. */
async function buildCli(manifest: Manifest): Promise<void> {
  await bundle(
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

/** Writes `lib/`. Dependencies of the package stay imports; other packages become part of it. */
async function bundle(manifest: Manifest, input: InputOptions, output: OutputOptions): Promise<void> {
  const installed = Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies });
  await rm('lib', { recursive: true, force: true });
  const build = await rolldown({
    cwd: ROOT,
    // The launcher builds the page with Vite in this repository only.
    external: [...installed, 'vite'].map((name) => new RegExp(`^${name}(/|$)`)),
    ...input,
  });
  const { output: files } = await build.write({ dir: path.resolve('lib'), ...output });
  await build.close();
  await writeFile(path.join('lib', LICENCES), await licencesOf(files));
  await cp(path.join(ROOT, 'LICENSE'), 'LICENSE');
}

const manifest = JSON.parse(await readFile('package.json', 'utf8')) as Manifest;
await (manifest.exports ? buildLibrary(manifest) : buildCli(manifest));
