/** Compiles WebAssembly modules of this project, which use SIMD instructions. */
import { backendOfCpu } from './fallbackBackend.ts';

/**
 * Returns `null` if the browser cannot run the module: it has no WebAssembly with SIMD, or the page
 * forbids WebAssembly, or an old browser compiles only small modules outside of workers.
 *
 * @param base64 the module's bytes.
 */
export function compileSimd(base64: string): WebAssembly.Module | null {
  if (backendOfCpu() !== 'simd') return null;
  try {
    return new WebAssembly.Module(Uint8Array.from(atob(base64), (character) => character.codePointAt(0)!));
  } catch {
    // A Content-Security-Policy forbids it. The error has another class in Safari than elsewhere.
    return null;
  }
}
