/** The worker of a page of `bench gpu`. It opens the device and measures. */
import { openAppDevice } from '../../src/engine/device/appDevice.ts';
import type { OpenedDevice } from '../../src/engine/device/device.ts';
import { systemClock } from '../../src/util/clock.ts';
import { messageOf } from '../../src/util/errors.ts';
import { webgpuBackend } from '../../src/gpu/backend.ts';
import { measureMatMul } from './matMul.ts';
import { firstSteps, takeTurns } from './takeTurns.ts';

/** Resolves with the features of the opened device. The engine requests all that it can use. */
function features(): Promise<string[]> {
  return Promise.resolve([...webgpuBackend()!.device.features].sort());
}

const MEASUREMENTS = { features, firstSteps, takeTurns, measureMatMul };
type Measurements = typeof MEASUREMENTS;

export type MeasurementName = keyof Measurements;
export type ArgsOf<Name extends MeasurementName> = Parameters<Measurements[Name]>[0];
export type ResultOf<Name extends MeasurementName> = Awaited<ReturnType<Measurements[Name]>>;

export type FromWorker = { type: 'measured'; adapter: string; result: unknown } | { type: 'failed'; message: string };

let opened: Promise<OpenedDevice> | undefined;

async function measure(name: keyof Measurements, args: never): Promise<FromWorker> {
  opened ??= openAppDevice(systemClock, 'stock');
  const own = await opened;
  const { device, note } = own;
  if (device.backend !== 'webgpu') return { type: 'failed', message: `WebGPU could not be opened. ${note}` };
  const result: unknown = await MEASUREMENTS[name](args);
  own.check();
  return { type: 'measured', adapter: device.adapter, result };
}

globalThis.addEventListener('message', ({ data }: MessageEvent<{ name: keyof Measurements; args: never }>) => {
  measure(data.name, data.args).then(
    (message) => globalThis.postMessage(message),
    (error: unknown) => globalThis.postMessage({ type: 'failed', message: messageOf(error) } satisfies FromWorker),
  );
});
