/** The worker of a page of `bench gpu`. It opens the device and measures. */
import { openAppDevice } from '../../src/engine/device/appDevice.ts';
import type { OpenedDevice } from '../../src/engine/device/device.ts';
import { webgpuBackend } from '../../src/gpu/backend.ts';
import { systemClock } from '../../src/util/clock.ts';
import { DeviceError, messageOf } from '../../src/util/errors.ts';
import type { Adapter } from './args.ts';
import { measureMatMul } from './matMul.ts';
import { memoryOf, takeTurns } from './takeTurns.ts';

/** Resolves with the adapter. The engine requests all features that it can use. */
async function adapter(_args: null): Promise<Adapter> {
  const { device } = await opened!;
  return { name: device.adapter, features: [...webgpuBackend()!.device.features].sort() };
}

const MEASUREMENTS = { adapter, memoryOf, takeTurns, measureMatMul };
type Measurements = typeof MEASUREMENTS;

export type MeasurementName = keyof Measurements;
export type ArgsOf<Name extends MeasurementName> = Parameters<Measurements[Name]>[0];
export type ResultOf<Name extends MeasurementName> = Awaited<ReturnType<Measurements[Name]>>;

export type FromWorker = { result: unknown } | { message: string };

let opened: Promise<OpenedDevice> | undefined;

async function measure(name: MeasurementName, args: never): Promise<FromWorker> {
  opened ??= openAppDevice(systemClock, 'stock');
  const own = await opened;
  const { device, note } = own;
  if (device.backend !== 'webgpu') throw new DeviceError(`WebGPU could not be opened. ${note}`);
  const result: unknown = await MEASUREMENTS[name](args);
  own.check();
  return { result };
}

globalThis.addEventListener('message', ({ data }: MessageEvent<{ name: MeasurementName; args: never }>) => {
  measure(data.name, data.args).then(
    (answer) => globalThis.postMessage(answer),
    (error: unknown) => globalThis.postMessage({ message: messageOf(error) } satisfies FromWorker),
  );
});
