/** Compiles WebAssembly modules of this project, which use SIMD instructions. */
import { fastestCpuBackend } from './fallbackBackend.ts';

/**
 * Compiles a module. Returns `null` if the browser cannot run the module: it has no WebAssembly
 * with SIMD, or the page forbids WebAssembly, or an old browser compiles only small modules outside
 * of workers.
 *
 * @param base64 the module's bytes.
 * @param change returns the bytes that are compiled.
 */
export function compileSimd(
  base64: string,
  change = (bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> => bytes,
): WebAssembly.Module | null {
  if (fastestCpuBackend() !== 'simd') return null;
  const bytes = change(Uint8Array.from(atob(base64), (character) => character.codePointAt(0)!));
  try {
    return new WebAssembly.Module(bytes);
  } catch {
    // A Content-Security-Policy forbids it. The class of the error depends on the browser.
    return null;
  }
}
