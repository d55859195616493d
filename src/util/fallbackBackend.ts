/** Detects what a tab without WebGPU computes with. Runs in a worker or on a page. */
import { SOFTWARE_RENDERER } from './gpuAdapter.ts';

/** The fastest first. `simd` and `wasm`: WebAssembly with and without SIMD instructions. */
export type FallbackBackend = 'webgl' | 'simd' | 'wasm' | 'javascript';

/**
 * A WebAssembly module, copied from wasm-feature-detect. Its only function uses vector
 * instructions.
 */
const SIMD_MODULE = [
  ...[0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3],
  ...[2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11],
];

export function fallbackBackend(): FallbackBackend {
  return hasGpuForWebGL() ? 'webgl' : fastestCpuBackend();
}

/** Returns the fastest backend of {@link fallbackBackend} that computes on the CPU. */
export function fastestCpuBackend(): Exclude<FallbackBackend, 'webgl'> {
  // Users and administrators can disable WebAssembly.
  if (typeof WebAssembly === 'undefined') return 'javascript';
  return WebAssembly.validate(new Uint8Array(SIMD_MODULE)) ? 'simd' : 'wasm';
}

/** Returns whether WebGL runs on a GPU. WebGL in software is slower than WebAssembly. */
export function hasGpuForWebGL(): boolean {
  // In a worker without OffscreenCanvas, TensorFlow.js cannot use WebGL.
  if (typeof OffscreenCanvas === 'undefined') return false;
  const gl = new OffscreenCanvas(1, 1).getContext('webgl2');
  if (gl === null) return false;
  // Some browsers do not offer the extension. There, RENDERER may be the GPU's name, as in Firefox.
  const unmasked = gl.getExtension('WEBGL_debug_renderer_info')?.UNMASKED_RENDERER_WEBGL ?? gl.RENDERER;
  const renderer = String(gl.getParameter(unmasked));
  gl.getExtension('WEBGL_lose_context')?.loseContext();
  return !SOFTWARE_RENDERER.test(renderer);
}
