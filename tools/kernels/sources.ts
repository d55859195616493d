/** The sources of the WebAssembly modules. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';

/** For each module, the folder of its sources, and the file that contains the compiled module. */
export const MODULES = [
  { folder: 'src/optim/module', output: 'src/optim/moduleBytes.ts' },
  { folder: 'src/wasm/module', output: 'src/wasm/moduleBytes.ts' },
] as const;

export const COMPILER = 'assemblyscript@0.28.20';
// The memory has a maximum size, so that it can be shared. Tables are below address 1024, where
// TensorFlow.js's module has nothing. AS112 warns of exported functions with vectors; only those of
// the entry file are exported.
export const OPTIONS =
  '-O3 --noAssert --runtime stub --importMemory --maximumMemory 65536 --memoryBase 256 --enable simd --disableWarning 112'.split(
    ' ',
  );

/**
 * Returns, in hexadecimal digits, the SHA-256 of what a compiled module depends on: the compiler,
 * its options, and the names and texts of the sources.
 */
export function sourcesHash(folder: string): string {
  const hash = createHash('sha256').update([COMPILER, ...OPTIONS].join(' '));
  for (const name of readdirSync(folder).toSorted()) {
    hash.update(`${name}\n${readFileSync(`${folder}/${name}`, 'utf8')}\n`);
  }
  return hash.digest('hex');
}
