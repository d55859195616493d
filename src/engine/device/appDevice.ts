/** Opens the device in the app, whose bundle includes the files of WebAssembly. */
import type { Clock } from '../../util/clock.ts';
import type { KernelChoice } from '../../spec/names.ts';
import { loadCode } from '../loadCode.ts';
import type { OpenedDevice } from './device.ts';

/**
 * Loads TensorFlow.js only when the device is opened, because a tab can join a room without
 * TensorFlow.js.
 */
export async function openAppDevice(clock: Clock, kernels: KernelChoice): Promise<OpenedDevice> {
  const { openFastestDevice } = await loadCode(() => import('./device.ts'));
  return openFastestDevice(clock, async () => (await loadCode(() => import('./wasm.ts'))).openWasmBackend(), kernels);
}
