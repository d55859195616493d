/**
 * The device on which the library computes. In contrast to the app, a program that uses the library
 * may choose the device.
 */
import * as tf from '@tensorflow/tfjs';
import type { WebGPUBackend } from '@tensorflow/tfjs-backend-webgpu';
import { openFastestDevice, type OpenedDevice } from '../engine/device/device.ts';
import { watchGpuErrors } from '../engine/device/gpuErrors.ts';
import { prepareWasmBackend, switchToWasmBackend } from '../engine/device/wasmBackend.ts';
import { ReportedDevice } from '../protocol/room.ts';
import { systemClock } from '../util/clock.ts';
import { DeviceError, UsageError } from '../util/errors.ts';

/**
 * `auto`: the library opens the best device, unless the page has already chosen a backend. The page
 * has chosen one if TensorFlow.js has initialised it. If TensorFlow.js itself has opened WebGPU and
 * the device has no tensors yet, the library opens it again with higher limits. `current`: the
 * library uses the backend that TensorFlow.js has or chooses.
 */
export type DeviceChoice = 'auto' | 'current';

/** Maps TensorFlow.js's backends to the devices that {@link openDevice} has opened. */
const openedDevices = new WeakMap<object, OpenedDevice>();
let opening: Promise<OpenedDevice> | null = null;

/**
 * Opens the fastest device that this page or worker has, and makes it the backend of TensorFlow.js:
 * WebGPU with the limits of the adapter; otherwise WebGL on a GPU; otherwise the CPU, with
 * WebAssembly if the page imports `@tensorflow/tfjs-backend-wasm`. Later calls return the device
 * that is open. After the GPU was lost, call it again and build the model again, because the values
 * of all tensors are lost.
 *
 * @throws (rejects) UsageError if TensorFlow.js has opened WebGPU itself and has tensors there,
 *   because their values would be lost. Call it before the first tensor.
 *
 * @example
 * ```ts
 * const { device, note } = await openDevice();
 * console.log(device.backend, note);
 * ```
 */
export async function openDevice(): Promise<OpenedDevice> {
  opening ??= open().finally(() => (opening = null));
  return opening;
}

async function open(): Promise<OpenedDevice> {
  const webgpu = tf.engine().registry['webgpu'] as WebGPUBackend | undefined;
  const usable = webgpu && !(await isLost(webgpu)) ? webgpu : null;
  const openGpu = usable && openedDevices.get(usable);
  if (openGpu) {
    await tf.setBackend('webgpu');
    return openGpu;
  }
  const current = tf.getBackend() ? tf.backend() : null;
  const openNow = current === webgpu ? null : current && openedDevices.get(current);
  if (openNow) return openNow;
  const tensors = usable?.numDataIds() ?? 0;
  if (tensors > 0) {
    throw new UsageError(
      `TensorFlow.js has opened the GPU itself, and ${tensors} tensors on the GPU would be lost. Call openDevice() before the ` +
        'first tensor, or dispose of all tensors.',
    );
  }
  const opened = await openFastestDevice(systemClock, async () => ((await switchToWasmBackend()) ? {} : null));
  openedDevices.set(tf.backend(), opened);
  return opened;
}

/**
 * Resolves with whether the GPU was lost. A GPU reports its loss only by a promise, and the race
 * shows whether this promise has settled.
 */
async function isLost({ device }: WebGPUBackend): Promise<boolean> {
  return (await Promise.race([device.lost, Promise.resolve(null)])) !== null;
}

/** Opens the best device if `choice` says so. Returns the device that TensorFlow.js uses then. */
export async function prepareDevice(choice: DeviceChoice): Promise<ReportedDevice> {
  // The kernels of this project are also prepared for a page that has chosen WebAssembly itself.
  prepareWasmBackend();
  if (choice === 'auto' && !tf.getBackend()) return (await openDevice()).device;
  await tf.ready();
  const isOpen = openedDevices.has(tf.backend());
  const isReplaceable = tf.getBackend() === 'webgpu' && !isOpen && tf.memory().numDataBuffers === 0;
  if (choice === 'auto' && isReplaceable) return (await openDevice()).device;
  return currentDevice();
}

/** Returns the device that TensorFlow.js uses now. */
export function currentDevice(): ReportedDevice {
  const backend = tf.getBackend();
  const known = ReportedDevice.entries.backend.options.find((name) => name === backend);
  return openedDevices.get(tf.backend())?.device ?? { backend: known ?? 'cpu', adapter: backend };
}

/**
 * Watches the GPU that TensorFlow.js uses now. After an error of the GPU, all results are invalid,
 * but TensorFlow.js does not report such errors.
 *
 * @param onfailure called for each error.
 */
export function watchCurrentGpu(onfailure?: (error: DeviceError) => void): ReturnType<typeof watchGpuErrors> {
  if (tf.getBackend() !== 'webgpu') return { check: () => {}, stop: () => {} };
  const backend = tf.backend() as WebGPUBackend;
  const advice = 'TensorFlow.js has opened this GPU with low limits. Call openDevice() before the first tensor.';
  return watchGpuErrors(backend.device, (error) =>
    onfailure?.(openedDevices.has(backend) ? error : new DeviceError(`${error.message} ${advice}`)),
  );
}
