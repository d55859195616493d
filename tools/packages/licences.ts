/** Collects the licences of packages that are part of a bundle, as these licences require. */
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import type { OutputAsset, OutputChunk } from 'rolldown';
import type { Plugin, UserConfig } from 'vite';

interface Manifest {
  name: string;
  version: string;
  license: string;
  author?: string | { name: string };
  dependencies?: Record<string, string>;
}

/** Name of the file with the licences, in each folder of output. */
export const LICENCES = 'THIRD-PARTY-LICENSES.txt';

/**
 * Plugins for a page and its workers that write {@link LICENCES}. Vite's `build.license` writes
 * neither the packages of workers nor those that a prebuilt file contains.
 */
export function licencePlugins(): Required<Pick<UserConfig, 'plugins'>> & { worker: { plugins: () => Plugin[] } } {
  const inWorkers: (OutputChunk | OutputAsset)[] = [];
  const collect: Plugin = {
    name: 'collect-worker-licences',
    generateBundle(_, bundle) {
      inWorkers.push(...Object.values(bundle));
    },
  };
  const write: Plugin = {
    name: 'write-licences',
    apply: 'build',
    // Vite builds workers before this, when it transforms the modules that start them.
    async generateBundle(_, bundle) {
      const source = await licencesOf([...inWorkers, ...Object.values(bundle)]);
      this.emitFile({ type: 'asset', fileName: LICENCES, source });
    },
  };
  return { plugins: [write], worker: { plugins: () => [collect] } };
}

/** Returns name, version and licence of each package from which the chunks contain code. */
export async function licencesOf(files: readonly (OutputChunk | OutputAsset)[]): Promise<string> {
  const modules = files.flatMap((file) => (file.type === 'chunk' ? file.moduleIds : []));
  const texts = new Map<string, string>();
  for (const id of modules) {
    const [, parent, name] = /^(.*\/node_modules)\/((?:@[^/]+\/)?[^/]+)/.exec(id) ?? [];
    if (parent !== undefined && name !== undefined) await addLicence(parent, name, texts);
  }
  return [...texts.values()].sort().join(`\n${'-'.repeat(80)}\n\n`);
}

/** Adds the licence of a package and of its dependencies, which a prebuilt file contains. */
async function addLicence(parent: string, name: string, texts: Map<string, string>): Promise<void> {
  if (texts.has(name)) return;
  const folder = path.join(parent, name);
  const manifest = JSON.parse(await readFile(path.join(folder, 'package.json'), 'utf8')) as Manifest;
  const { version, license, author = '', dependencies = {} } = manifest;
  const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
  // A few packages state their licence in package.json only.
  const text = file === undefined ? `${license}, ${typeof author === 'string' ? author : author.name}\n` : null;
  texts.set(name, `${name} ${version}\n\n${text ?? (await readFile(path.join(folder, file!), 'utf8'))}`);
  for (const dependency of Object.keys(dependencies)) await addLicence(parent, dependency, texts);
}
