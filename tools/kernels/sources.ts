/** The sources of the WebAssembly modules. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';

/** Each module: the folder of its sources, and the file that contains it, compiled. */
export const MODULES = [
  { folder: 'src/optim/module', output: 'src/optim/moduleBytes.ts' },
  { folder: 'src/wasm/module', output: 'src/wasm/moduleBytes.ts' },
] as const;

/** Returns the SHA-256 of the names and texts of a module's sources, in hexadecimal digits. */
export function sourcesHash(folder: string): string {
  const hash = createHash('sha256');
  for (const name of readdirSync(folder).toSorted()) {
    hash.update(`${name}\n${readFileSync(`${folder}/${name}`, 'utf8')}\n`);
  }
  return hash.digest('hex');
}
