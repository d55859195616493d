/** The note about a device that is slower than it could be, in browsers that lack something. */
import { afterEach, expect, test, vi } from 'vitest';
import { openAppDevice } from '../../../src/engine/device/appDevice.ts';
import { ManualClock } from '../../manualClock.ts';

// The paths that Vite creates for a browser do not work in Node.
const files = vi.hoisted(() => {
  const path = 'node_modules/@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm';
  return { plain: { default: `${path}.wasm` }, simd: { default: `${path}-simd.wasm` } };
});
vi.mock('@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm.wasm?url', () => files.plain);
vi.mock('@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm-simd.wasm?url', () => files.simd);

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

const open = (navigator: Partial<Navigator> = {}) => {
  vi.stubGlobal('isSecureContext', true);
  vi.stubGlobal('navigator', navigator);
  return openAppDevice(new ManualClock(), 'own');
};

test('a tab without WebGPU and without a GPU for WebGL computes with WebAssembly', async () => {
  const { device, note } = await open();
  expect(device).toEqual({ backend: 'wasm', adapter: 'CPU (WebAssembly)' });
  expect(note).toBe(
    'Training on the CPU, which is slower than a GPU. The reason: this browser does not support WebGPU. Use a current Chrome, Edge or Safari.',
  );
});

test('a tab whose WebAssembly has no SIMD says so', async () => {
  vi.spyOn(WebAssembly, 'validate').mockReturnValue(false);
  const { device, note } = await open();
  expect(device).toEqual({ backend: 'wasm', adapter: 'CPU (WebAssembly without SIMD)' });
  expect(note).toMatch(/not support WebGPU.*WebAssembly also lacks SIMD instructions in this browser/);
});

test('a tab with one thread says so, and names what the page lacks for threads', async () => {
  expect((await open({ hardwareConcurrency: 4 })).note).toMatch(/It uses one of 4 cores\. Only pages over https/);
  vi.stubGlobal('crossOriginIsolated', true);
  expect((await open({ hardwareConcurrency: 4 })).note).toMatch(/It uses one of 4 cores\.$/);
});

test('a tab without WebAssembly computes in JavaScript and says what is missing', async () => {
  vi.stubGlobal('WebAssembly', undefined);
  const { device, note } = await open();
  expect(device).toEqual({ backend: 'cpu', adapter: 'CPU' });
  expect(note).toMatch(
    /not support WebGPU.*WebGL finds no GPU, and WebAssembly is missing or disabled in this browser/,
  );
});
