/**
 * Collects errors of a WebGPU device. After an error all results are invalid, but TensorFlow.js
 * does not report errors.
 */
import { DeviceError } from '../../util/errors.ts';

interface GpuErrors {
  /**
   * @throws DeviceError if the GPU was lost, or if it has refused an operation since the last
   *   check.
   */
  check(): void;
  /** Stops listening. */
  stop: () => void;
}

/** @param onfailure called for each error. */
export function watchGpuErrors(gpu: GPUDevice, onfailure = (_error: DeviceError): void => {}): GpuErrors {
  let refused: DeviceError | null = null;
  let lost: DeviceError | null = null;
  let isStopped = false;
  const onerror = ({ error }: GPUUncapturedErrorEvent): void => {
    const failure = new DeviceError(`The GPU refused an operation, so its results are invalid: ${error.message}`);
    refused ??= failure;
    onfailure(failure);
  };
  gpu.addEventListener('uncapturederror', onerror);
  void gpu.lost.then(({ message }) => {
    lost = new DeviceError(
      `The GPU was lost (${message || 'no reason given'}). Reload the page if training does not continue by itself.`,
    );
    if (!isStopped) onfailure(lost);
  });
  return {
    check() {
      const failure = lost ?? refused;
      refused = null;
      if (failure) throw failure;
    },
    stop: () => {
      isStopped = true;
      gpu.removeEventListener('uncapturederror', onerror);
    },
  };
}
