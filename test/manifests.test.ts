/** Checks facts that several manifests repeat because their programs read no other file. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '..');

const read = (file: string): unknown => JSON.parse(readFileSync(path.join(ROOT, file), 'utf8'));

interface Manifest {
  version: string;
  exports?: Record<string, { types?: string } | string>;
}

test('all packages have the same version', () => {
  const folders = readdirSync(path.join(ROOT, 'packages'));
  expect(folders).toEqual(['peergrad', 'peergrad-cli']);
  const versions = folders.map((folder) => (read(`packages/${folder}/package.json`) as Manifest).version);
  expect(new Set(versions).size).toBe(1);
});

test('declarations and reference cover the exports of the library', () => {
  const { exports } = read('packages/peergrad/package.json') as Manifest;
  // Two exports have the same types if one of them is a single file.
  const types = new Set(Object.values(exports!).flatMap((entry) => (typeof entry === 'string' ? [] : [entry.types!])));
  const exported = Array.from(types, (file) => file.replace('./lib/', 'src/').replace('.d.ts', '.ts'));
  expect(exported).toContain('src/index.ts');
  const { include } = read('tsconfig.lib.json') as { include: string[] };
  expect(include.filter((file) => !file.includes('*'))).toEqual(exported);
  const { entryPoints } = read('typedoc.json') as { entryPoints: string[] };
  expect(entryPoints).toEqual(exported);
});

test('development uses one exact version of TensorFlow.js, and the library accepts this and later patch versions', () => {
  const names = ['@tensorflow/tfjs', '@tensorflow/tfjs-backend-webgpu', '@tensorflow/tfjs-backend-wasm'];
  const { devDependencies } = read('package.json') as { devDependencies: Record<string, string> };
  const { peerDependencies } = read('packages/peergrad/package.json') as { peerDependencies: Record<string, string> };
  for (const name of names) {
    const { version } = read(`node_modules/${name}/package.json`) as Manifest;
    expect(devDependencies[name]).toBe(version);
    if (name in peerDependencies) expect(peerDependencies[name]).toBe(`~${version}`);
  }
});
