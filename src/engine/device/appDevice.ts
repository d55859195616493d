/** Opens the device in the app, whose bundle includes the files of WebAssembly. */
import type { Clock } from '../../util/clock.ts';
import type { GpuKernelChoice } from '../../spec/names.ts';
import { loadCodeModule } from '../loadCodeModule.ts';
import type { OpenedDevice } from './device.ts';

/**
 * Loads TensorFlow.js only when the device is opened, because a tab can join a room without
 * TensorFlow.js.
 */
export async function openAppDevice(clock: Clock, kernels: GpuKernelChoice): Promise<OpenedDevice> {
  const { openFastestDevice } = await loadCodeModule(() => import('./device.ts'));
  return openFastestDevice(
    clock,
    async () => (await loadCodeModule(() => import('./wasm.ts'))).openWasmBackend(),
    kernels,
  );
}
