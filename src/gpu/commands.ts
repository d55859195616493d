/** Counts the commands that a WebGPU device receives. */
import { webgpuBackend } from './backend.ts';

/** Totals since the device was opened. */
export interface GpuCommandCounts {
  /** Compute shaders that were started. */
  dispatches: number;
  /** Calls of `queue.submit` with at least one command buffer. */
  submits: number;
  /** Bytes that were written from the CPU, including uniforms. */
  uploadedBytes: number;
  /** Bytes that were copied into buffers that the CPU reads. */
  readBytes: number;
}

const countsByDevice = new WeakMap<GPUDevice, GpuCommandCounts>();

/** Returns the live counts of a device; `null` if the device is not observed. */
export function gpuCommandCountsOf(gpu: GPUDevice): GpuCommandCounts | null {
  return countsByDevice.get(gpu) ?? null;
}

/**
 * Returns a copy of the counts of the device that TensorFlow.js uses; `null` on other backends, and
 * for a device that is not observed.
 */
export function currentGpuCommandCounts(): GpuCommandCounts | null {
  const gpu = webgpuBackend()?.device;
  const counts = gpu && gpuCommandCountsOf(gpu);
  return counts ? { ...counts } : null;
}

/**
 * Starts to count the commands of `gpu`. Replaces methods of this device object, so it must be
 * called before the device is passed on. Idempotent.
 */
export function observeGpuCommands(gpu: GPUDevice): GpuCommandCounts {
  const existing = countsByDevice.get(gpu);
  if (existing) return existing;
  const counts: GpuCommandCounts = { dispatches: 0, submits: 0, uploadedBytes: 0, readBytes: 0 };
  countsByDevice.set(gpu, counts);
  const { queue } = gpu;

  const createBuffer = gpu.createBuffer.bind(gpu);
  gpu.createBuffer = (descriptor) => {
    if (descriptor.mappedAtCreation) counts.uploadedBytes += descriptor.size;
    return createBuffer(descriptor);
  };
  const writeBuffer = queue.writeBuffer.bind(queue);
  queue.writeBuffer = (buffer, offset, data, dataOffset = 0, size?: number) => {
    const elementBytes = 'BYTES_PER_ELEMENT' in data ? (data.BYTES_PER_ELEMENT as number) : 1;
    counts.uploadedBytes += size === undefined ? data.byteLength - dataOffset * elementBytes : size * elementBytes;
    writeBuffer(buffer, offset, data, dataOffset, size);
  };
  const submit = queue.submit.bind(queue);
  queue.submit = (commandBuffers) => {
    const buffers = [...commandBuffers];
    if (buffers.length > 0) counts.submits += 1;
    submit(buffers);
  };
  const createCommandEncoder = gpu.createCommandEncoder.bind(gpu);
  gpu.createCommandEncoder = (descriptor) => countEncoder(createCommandEncoder(descriptor), counts);
  return counts;
}

function countEncoder(encoder: GPUCommandEncoder, counts: GpuCommandCounts): GPUCommandEncoder {
  const beginComputePass = encoder.beginComputePass.bind(encoder);
  encoder.beginComputePass = (descriptor) => {
    const pass = beginComputePass(descriptor);
    const dispatch = pass.dispatchWorkgroups.bind(pass);
    pass.dispatchWorkgroups = (x, y, z) => {
      counts.dispatches += 1;
      dispatch(x, y, z);
    };
    return pass;
  };
  const copy = encoder.copyBufferToBuffer.bind(encoder) as (...args: CopyArguments) => void;
  const countedCopy = (...args: CopyArguments): void => {
    const [, , target, , size] = args;
    if ((target.usage & GPUBufferUsage.MAP_READ) !== 0) counts.readBytes += size;
    copy(...args);
  };
  encoder.copyBufferToBuffer = countedCopy as GPUCommandEncoder['copyBufferToBuffer'];
  return encoder;
}

/** The form of `copyBufferToBuffer` with offsets, which TensorFlow.js and this project use. */
type CopyArguments = [source: GPUBuffer, from: number, target: GPUBuffer, to: number, size: number];
