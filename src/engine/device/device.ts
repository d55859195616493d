/**
 * Chooses the device that this rank computes on: WebGPU, else WebGL on a GPU, else the CPU, with
 * WebAssembly if possible. Explains the choice in a note. Runs in a worker or on a page.
 */
import * as tf from '@tensorflow/tfjs';
import { WebGPUBackend } from '@tensorflow/tfjs-backend-webgpu';
import type { Device } from '../../protocol/room.ts';
import type { Clock } from '../../util/clock.ts';
import { within } from '../../util/deadline.ts';
import { DeviceError, messageOf } from '../../util/errors.ts';
import { SOFTWARE_RENDERER } from '../../util/softwareRenderer.ts';
import { watchGpu } from './gpuErrors.ts';

/** Some drivers never answer `requestAdapter`; a real one takes well under a second. */
const ADAPTER_TIMEOUT_MS = 10_000;
/** Higher than the priorities of WebGL (2) and the CPU (1) in TensorFlow.js. */
const WEBGPU_PRIORITY = 3;

export interface OpenedDevice {
  device: Device;
  /** A sentence that explains why the device is not WebGPU; `null` for WebGPU. */
  note: string | null;
  /**
   * Throws DeviceError if the GPU was lost, or refused an operation since the last check. Results
   * since then are void, and TensorFlow.js reports nothing.
   */
  check(): void;
}

/**
 * Limits to raise to those of the adapter. TensorFlow.js's kernels assume them: `addN` fails
 * silently without the last.
 */
const RAISED_LIMITS = [
  'maxComputeWorkgroupStorageSize',
  'maxComputeWorkgroupsPerDimension',
  'maxStorageBufferBindingSize',
  'maxBufferSize',
  'maxComputeWorkgroupSizeX',
  'maxComputeInvocationsPerWorkgroup',
  'maxStorageBuffersPerShaderStage',
] as const satisfies readonly (keyof GPUSupportedLimits)[];

/** Opens the best backend and makes it TensorFlow.js's current one. */
export async function openDevice(clock: Clock): Promise<OpenedDevice> {
  let reason: string;
  try {
    return await openWebGPU(clock);
  } catch (error) {
    reason = messageOf(error);
  }
  if (hasGpuForWebGL() && (await tf.setBackend('webgl').catch(() => false))) {
    const note = `Training on WebGL, slower than WebGPU: ${reason}`;
    return { device: { backend: 'webgl', adapter: 'WebGL' }, note, check: () => {} };
  }
  const { openWasm } = await import('./wasm.ts');
  if (await openWasm()) {
    const note = `Training on the CPU, slower than a GPU: ${reason}`;
    return { device: { backend: 'wasm', adapter: 'CPU (WebAssembly)' }, note, check: () => {} };
  }
  await tf.setBackend('cpu');
  const note = `Training on the CPU without WebAssembly, much slower than a GPU: ${reason}`;
  return { device: { backend: 'cpu', adapter: 'CPU' }, note, check: () => {} };
}

/** Whether WebGL runs on a GPU. WebGL in software is slower than WebAssembly. */
function hasGpuForWebGL(): boolean {
  // TensorFlow.js has no WebGL in a worker without OffscreenCanvas.
  if (typeof OffscreenCanvas === 'undefined') return false;
  const gl = new OffscreenCanvas(1, 1).getContext('webgl2');
  if (gl === null) return false;
  // Firefox has the name in RENDERER, and warns about the extension.
  const unmasked = gl.getExtension('WEBGL_debug_renderer_info')?.UNMASKED_RENDERER_WEBGL ?? gl.RENDERER;
  const renderer = String(gl.getParameter(unmasked));
  gl.getExtension('WEBGL_lose_context')?.loseContext();
  return !SOFTWARE_RENDERER.test(renderer);
}

async function openWebGPU(clock: Clock): Promise<OpenedDevice> {
  if (!globalThis.isSecureContext) {
    throw new DeviceError('this page is not a secure context; open it over https or on localhost.');
  }
  if (!navigator.gpu) throw new DeviceError('this browser has no WebGPU; a current Chrome, Edge or Safari does.');
  const adapter = await within(
    clock,
    ADAPTER_TIMEOUT_MS,
    navigator.gpu.requestAdapter({ powerPreference: 'high-performance' }),
    () => new DeviceError(`the GPU did not answer within ${ADAPTER_TIMEOUT_MS / 1000} s.`),
  );
  if (!adapter) throw new DeviceError('the browser offers no GPU adapter; look at chrome://gpu for the reason.');
  const requiredLimits = Object.fromEntries(RAISED_LIMITS.map((limit) => [limit, adapter.limits[limit]]));
  const gpu = await adapter.requestDevice({ requiredLimits });
  const errors = watchGpu(gpu);
  // The import of the backend registered its own factory, which raises fewer limits and hides
  // errors.
  tf.removeBackend('webgpu');
  tf.registerBackend('webgpu', () => new WebGPUBackend(gpu, adapter.info), WEBGPU_PRIORITY);
  if (!(await tf.setBackend('webgpu'))) throw new DeviceError('TensorFlow.js could not use the GPU.');
  return {
    device: { backend: 'webgpu', adapter: nameOf(adapter.info) },
    note: null,
    check: () => errors.check(),
  };
}

/** The adapter's name for people. Browsers fill in different fields. */
function nameOf(info: GPUAdapterInfo): string {
  const name = info.description || [info.vendor, info.architecture].filter(Boolean).join(' ') || 'WebGPU';
  return name.slice(0, 200);
}
