/** Opens the device in the app, whose bundle includes the files of WebAssembly. */
import type { Clock } from '../../util/clock.ts';
import type { KernelChoice } from '../../spec/names.ts';
import { openDevice, type OpenedDevice } from './device.ts';

export function openAppDevice(clock: Clock, kernels: KernelChoice): Promise<OpenedDevice> {
  return openDevice(clock, async () => (await import('./wasm.ts')).openWasm(), kernels);
}
