/** The worker of a page of `bench gpu`. It opens the device and measures. */
import { openAppDevice } from '../../src/engine/device/appDevice.ts';
import type { OpenedDevice } from '../../src/engine/device/device.ts';
import { webgpuBackend } from '../../src/gpu/backend.ts';
import { systemClock } from '../../src/util/clock.ts';
import { DeviceError } from '../../src/util/errors.ts';
import { answerCalls } from '../world/calls.ts';
import type { Adapter } from './args.ts';
import { measureMatMul } from './matMul.ts';
import { memoryOf, takeTurns } from './takeTurns.ts';

let opened: Promise<OpenedDevice> | undefined;

/** Returns a function that opens the device, measures, and checks that the GPU was not lost. */
function onGpu<Args, Result>(measure: (args: Args, device: OpenedDevice['device']) => Promise<Result>) {
  return async (args: Args): Promise<Result> => {
    const own = await (opened ??= openAppDevice(systemClock, 'stock'));
    if (own.device.backend !== 'webgpu') throw new DeviceError(`WebGPU could not be opened. ${own.note}`);
    const result = await measure(args, own.device);
    own.check();
    return result;
  };
}

/** Resolves with the adapter. The engine requests all features that it can use. */
async function adapter(_args: null, { adapter: name }: OpenedDevice['device']): Promise<Adapter> {
  return { name, features: [...webgpuBackend()!.device.features].sort() };
}

const MEASUREMENTS = {
  adapter: onGpu(adapter),
  memoryOf: onGpu(memoryOf),
  takeTurns: onGpu(takeTurns),
  measureMatMul: onGpu(measureMatMul),
};
type Measurements = typeof MEASUREMENTS;

export type MeasurementName = keyof Measurements;
export type ArgsOf<Name extends MeasurementName> = Parameters<Measurements[Name]>[0];
export type ResultOf<Name extends MeasurementName> = Awaited<ReturnType<Measurements[Name]>>;

answerCalls(MEASUREMENTS);
