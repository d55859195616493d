/** A bad argument is named before packages load that take long. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '../..');
/** Imports that Node loads before the first statement of a file: neither types nor `import()`. */
const STATIC_IMPORT = /^(?:import|export) (?!type )(?:[^'";]*? from )?'([^']+)'/gm;

/** Returns the packages that Node loads together with a file. */
function packagesOf(entry: string): Set<string> {
  const packages = new Set<string>();
  const files = new Set<string>();
  const open = [path.join(ROOT, entry)];
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (files.has(file) || file.endsWith('.json')) continue;
    files.add(file);
    for (const [, specifier] of readFileSync(file, 'utf8').matchAll(STATIC_IMPORT)) {
      if (specifier!.startsWith('.')) open.push(path.resolve(path.dirname(file), specifier!));
      else if (!specifier!.startsWith('node:')) packages.add(specifier!);
    }
  }
  return packages;
}

const SLOW = ['pino', 'ws', 'selfsigned', 'prom-client', 'send', 'redis', 'vite', 'playwright-core'];

test.each(['main', 'commands/run', 'commands/join', 'commands/serve', 'commands/example'])(
  'launcher/%s.ts loads no server or browser package at its start',
  (name) => {
    const packages = packagesOf(`launcher/${name}.ts`);
    // So that a changed style of imports does not hide them.
    expect(packages.size).toBeGreaterThan(0);
    expect(SLOW.filter((one) => packages.has(one))).toEqual([]);
  },
);
