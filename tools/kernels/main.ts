/**
 * Compiles the WebAssembly kernels in `src/wasm/module` with AssemblyScript, and writes
 * `src/wasm/moduleBytes.ts`, which is in the repository, so that nobody else needs the compiler.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { MODULE_BYTES, MODULE_FOLDER, sourcesHash } from './sources.ts';

const ASC = ['exec', '--yes', '--package=assemblyscript@0.28.20', '--', 'asc'];
// AS112 warns of exported functions with vectors; only functions of the entry file are exported.
const OPTIONS = '-O3 --noAssert --runtime stub --importMemory --enable simd --disableWarning 112'.split(' ');

const folder = mkdtempSync(path.join(tmpdir(), 'peergrad-kernels-'));
try {
  const output = path.join(folder, 'module.wasm');
  execFileSync('npm', [...ASC, `${MODULE_FOLDER}/index.ts`, ...OPTIONS, '--outFile', output], { stdio: 'inherit' });
  const bytes = readFileSync(output);
  writeFileSync(
    MODULE_BYTES,
    `/** The compiled kernels of \`module\`, which \`npm run kernels\` writes. Do not edit. */

/** SHA-256 of their sources. */
export const SOURCES = '${sourcesHash()}';

/** The WebAssembly module, in base64. */
export const MODULE =
  '${bytes.toString('base64')}';
`,
  );
  process.stdout.write(`${MODULE_BYTES}: ${bytes.length} bytes\n`);
} finally {
  rmSync(folder, { recursive: true });
}
