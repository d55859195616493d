/** The sources of the WebAssembly kernels. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';

export const MODULE_FOLDER = 'src/wasm/module';
export const MODULE_BYTES = 'src/wasm/moduleBytes.ts';

/** Returns the SHA-256 of the names and texts of the sources, in hexadecimal digits. */
export function sourcesHash(): string {
  const hash = createHash('sha256');
  for (const name of readdirSync(MODULE_FOLDER).toSorted()) {
    hash.update(`${name}\n${readFileSync(`${MODULE_FOLDER}/${name}`, 'utf8')}\n`);
  }
  return hash.digest('hex');
}
