/** Errors of a WebGPU device. Results are void after one, and TensorFlow.js reports nothing. */
import { DeviceError } from '../../util/errors.ts';

interface GpuErrors {
  /** @throws DeviceError if the GPU was lost, or refused an operation since the last check. */
  check(): void;
  /** Stops listening. */
  stop(): void;
}

export function watchGpu(gpu: GPUDevice): GpuErrors {
  let refused: DeviceError | null = null;
  let lost: DeviceError | null = null;
  const onerror = ({ error }: GPUUncapturedErrorEvent): void => {
    refused ??= new DeviceError(`The GPU refused an operation, so its results are void: ${error.message}`);
  };
  gpu.addEventListener('uncapturederror', onerror);
  void gpu.lost.then(({ message }) => {
    lost = new DeviceError(
      `The GPU was lost (${message || 'no reason given'}): reload the page if it does not recover by itself.`,
    );
  });
  return {
    check() {
      const failure = lost ?? refused;
      refused = null;
      if (failure) throw failure;
    },
    stop: () => gpu.removeEventListener('uncapturederror', onerror),
  };
}
