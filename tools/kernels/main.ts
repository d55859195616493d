/**
 * Compiles the WebAssembly modules with AssemblyScript. The results are in the repository, so that
 * nobody else needs the compiler.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { COMPILER, MODULES, OPTIONS, sourcesHash } from './sources.ts';

const temporary = mkdtempSync(path.join(tmpdir(), 'peergrad-kernels-'));
try {
  for (const { folder, output } of MODULES) {
    const compiled = path.join(temporary, 'module.wasm');
    const asc = ['exec', '--yes', `--package=${COMPILER}`, '--', 'asc'];
    execFileSync('npm', [...asc, `${folder}/index.ts`, ...OPTIONS, '--outFile', compiled], { stdio: 'inherit' });
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
