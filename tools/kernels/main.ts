/**
 * Compiles the WebAssembly modules with AssemblyScript. The results are in the repository, so that
 * nobody else needs the compiler.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { MODULES, sourcesHash } from './sources.ts';

const ASC = ['exec', '--yes', '--package=assemblyscript@0.28.20', '--', 'asc'];
// AS112 warns of exported functions with vectors; only functions of the entry file are exported.
const OPTIONS = '-O3 --noAssert --runtime stub --importMemory --enable simd --disableWarning 112'.split(' ');

const temporary = mkdtempSync(path.join(tmpdir(), 'peergrad-kernels-'));
try {
  for (const { folder, output } of MODULES) {
    const compiled = path.join(temporary, 'module.wasm');
    execFileSync('npm', [...ASC, `${folder}/index.ts`, ...OPTIONS, '--outFile', compiled], { stdio: 'inherit' });
    const bytes = readFileSync(compiled);
    const text = `/** The compiled sources in \`module\`, which \`npm run kernels\` writes. Do not edit. */

/** SHA-256 of the sources. */
export const SOURCES = '${sourcesHash(folder)}';

/** The WebAssembly module, in base64. */
export const MODULE =
  '${bytes.toString('base64')}';
`;
    writeFileSync(output, text);
    process.stdout.write(`${output}: ${bytes.length} bytes\n`);
  }
} finally {
  rmSync(temporary, { recursive: true });
}
