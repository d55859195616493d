/**
 * Chooses the device that this rank computes on: WebGPU if possible, else WebGL on a GPU, else the
 * CPU (with WebAssembly if possible). A note explains the choice. Runs in a worker or on a page.
 */
import * as tf from '@tensorflow/tfjs';
import type { WebGPUBackend } from '@tensorflow/tfjs-backend-webgpu';
import type { ReportedDevice } from '../../protocol/room.ts';
import type { Clock } from '../../util/clock.ts';
import { withinDeadline } from '../../util/deadline.ts';
import { DeviceError, errorMessageOf } from '../../util/errors.ts';
import { chooseWebGpuKernels } from '../../gpu/kernels/index.ts';
import { fastestCpuBackend, hasGpuForWebGL } from '../../util/fallbackBackend.ts';
import type { GpuKernelChoice } from '../../spec/names.ts';
import { adapterDisplayName, requestAdapter } from '../../util/gpuAdapter.ts';
import { observeGpuCommands } from '../../gpu/commands.ts';
import { prepareGpuForRecording } from '../../gpu/recording.ts';
import { watchGpuErrors } from './gpuErrors.ts';
import { speedUpMapAsync } from './speedUpMapAsync.ts';

/**
 * Some drivers never respond to `requestAdapter`. A working driver responds in well under a second.
 */
const ADAPTER_TIMEOUT_MS = 10_000;
/** TensorFlow.js's priority for the WebGPU backend. WebGL has 2, and the CPU has 1. */
const WEBGPU_PRIORITY = 3;

/** Parts of the note if the CPU computes more slowly than it could: the reason, and a remedy. */
const WITHOUT_SIMD =
  'WebAssembly also lacks SIMD instructions in this browser, which makes training slower still. Use a newer browser.';
const WITHOUT_WASM =
  'WebGL finds no GPU, and WebAssembly is missing or disabled in this browser. Enable it, or use another browser.';
const WITHOUT_WASM_BACKEND =
  "WebGL finds no GPU, and TensorFlow.js's WebAssembly backend could not be loaded. A page that uses the library imports it from @tensorflow/tfjs-backend-wasm.";

export interface OpenedDevice {
  device: ReportedDevice;
  /** A sentence that explains why the device is not WebGPU. `null` if it is WebGPU. */
  note: string | null;
  /**
   * Throws DeviceError if the GPU was lost, or if it has refused an operation since the last check.
   * After such a failure all results are invalid, but TensorFlow.js does not report the failure.
   */
  check(): void;
  /**
   * Divides the machine's cores among ranks that compute on them. Absent if the device is a GPU, or
   * has only one thread.
   *
   * @param ranks number of ranks of this browser.
   */
  shareCores?: (ranks: number) => void;
}

/** The WebAssembly backend that `openFastestDevice` has opened. */
export interface OpenedWasmBackend {
  /** A sentence about its threads. */
  note?: string;
  shareCores?: OpenedDevice['shareCores'];
}

/**
 * Limits of WebGPU that are raised to the adapter's limits. TensorFlow.js's kernels rely on the
 * higher limits: `addN` fails silently unless the last limit of this list is raised.
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

/**
 * Extensions of WebGPU that are requested where the adapter has them. A GPU with `shader-f16`
 * computes in half precision. Measurements use `timestamp-query`.
 */
const WANTED_FEATURES = ['shader-f16', 'timestamp-query'] as const satisfies readonly GPUFeatureName[];

/**
 * Opens the fastest available backend and makes it the current backend of TensorFlow.js.
 *
 * @param openWasm makes WebAssembly the backend. Returns `null` if that fails.
 * @param kernels the kernels of the WebGPU backend.
 */
export async function openFastestDevice(
  clock: Clock,
  openWasm: () => Promise<OpenedWasmBackend | null>,
  kernels: GpuKernelChoice = 'own',
): Promise<OpenedDevice> {
  let reason: string;
  try {
    return await openWebGPU(clock, kernels);
  } catch (error) {
    reason = errorMessageOf(error);
  }
  if (hasGpuForWebGL() && (await tf.setBackend('webgl').catch(() => false))) {
    const note = `Training on WebGL, which is slower than WebGPU. The reason: ${reason}`;
    return { device: { backend: 'webgl', adapter: 'WebGL' }, note, check: () => {} };
  }
  const onCpu = fastestCpuBackend();
  const wasm = onCpu === 'javascript' ? null : await openWasm();
  if (wasm !== null) {
    const hasSimd = onCpu === 'simd';
    const sentences = [
      `Training on the CPU, which is slower than a GPU. The reason: ${reason}`,
      ...(hasSimd ? [] : [WITHOUT_SIMD]),
      ...(wasm.note === undefined ? [] : [wasm.note]),
    ];
    return {
      device: { backend: 'wasm', adapter: hasSimd ? 'CPU (WebAssembly)' : 'CPU (WebAssembly without SIMD)' },
      note: sentences.join(' '),
      check: () => {},
      ...(wasm.shareCores && { shareCores: wasm.shareCores }),
    };
  }
  await tf.setBackend('cpu');
  const note = `Training on the CPU without WebAssembly, which is much slower than a GPU. The reason: ${reason} ${onCpu === 'javascript' ? WITHOUT_WASM : WITHOUT_WASM_BACKEND}`;
  return { device: { backend: 'cpu', adapter: 'CPU' }, note, check: () => {} };
}

async function openWebGPU(clock: Clock, kernels: GpuKernelChoice): Promise<OpenedDevice> {
  if (!globalThis.isSecureContext) {
    throw new DeviceError('this page is not a secure context. Open it over https or on localhost.');
  }
  if (!navigator.gpu)
    throw new DeviceError('this browser does not support WebGPU. Use a current Chrome, Edge or Safari.');
  const adapter = await withinDeadline(
    clock,
    ADAPTER_TIMEOUT_MS,
    requestAdapter(navigator.gpu, { powerPreference: 'high-performance' }),
    () => new DeviceError(`the GPU did not respond within ${ADAPTER_TIMEOUT_MS / 1000} s.`),
  );
  if (!adapter)
    throw new DeviceError(
      'the browser offers no GPU adapter. Open chrome://gpu, or about:support in Firefox, to see why.',
    );
  const Backend = await loadWebGPUBackend();
  const requiredLimits = Object.fromEntries(RAISED_LIMITS.map((limit) => [limit, adapter.limits[limit]]));
  const requiredFeatures = WANTED_FEATURES.filter((feature) => adapter.features.has(feature));
  const gpu = await adapter.requestDevice({ requiredLimits, requiredFeatures });
  const errors = watchGpuErrors(gpu);
  observeGpuCommands(gpu);
  prepareGpuForRecording(gpu);
  await speedUpMapAsync(gpu, clock);
  // When TensorFlow.js's WebGPU module is imported, it registers a factory for this backend. That
  // factory raises fewer limits than this module and hides errors, so it is replaced.
  tf.removeBackend('webgpu');
  tf.registerBackend('webgpu', () => new Backend(gpu, adapter.info), WEBGPU_PRIORITY);
  if (!(await tf.setBackend('webgpu'))) throw new DeviceError('TensorFlow.js could not use the GPU.');
  chooseWebGpuKernels(kernels);
  return {
    device: { backend: 'webgpu', adapter: adapterDisplayName(adapter.info) },
    note: null,
    check: () => errors.check(),
  };
}

/**
 * Loads TensorFlow.js's WebGPU backend. Its package is an optional peer of the library. An import
 * within `try` lets bundlers continue without the package.
 */
async function loadWebGPUBackend(): Promise<typeof WebGPUBackend> {
  try {
    return (await import('@tensorflow/tfjs-backend-webgpu')).WebGPUBackend;
  } catch (error) {
    throw new DeviceError(
      `@tensorflow/tfjs-backend-webgpu could not be loaded (${errorMessageOf(error)}). Install it beside TensorFlow.js.`,
    );
  }
}
