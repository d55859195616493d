/** Errors of a GPU device. An event target replaces the device. */
import { expect, test } from 'vitest';
import { watchGpuErrors } from '../../../src/engine/device/gpuErrors.ts';
import { createDeferred } from '../../../src/util/deferred.ts';
import { DeviceError } from '../../../src/util/errors.ts';

test('check throws once for refused operations, each time for a lost device, and never for operations refused after stop()', async () => {
  const lost = createDeferred<GPUDeviceLostInfo>();
  const gpu = Object.assign(new EventTarget(), { lost: lost.promise }) as unknown as GPUDevice;
  const refuse = (message: string) =>
    gpu.dispatchEvent(Object.assign(new Event('uncapturederror'), { error: { message } }));
  const errors = watchGpuErrors(gpu);
  errors.check();
  refuse('too many buffers');
  refuse('another');
  expect(() => errors.check()).toThrow('The GPU refused an operation, so its results are invalid: too many buffers');
  errors.check();
  errors.stop();
  refuse('too late');
  errors.check();
  lost.resolve({ message: '' } as GPUDeviceLostInfo);
  await lost.promise;
  expect(() => errors.check()).toThrow(
    'The GPU was lost (no reason given). Reload the page if training does not continue by itself.',
  );
  expect(() => errors.check()).toThrow(DeviceError);
});
