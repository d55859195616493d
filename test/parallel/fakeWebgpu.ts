/** A stand-in for TensorFlow.js's WebGPU backend that computes on the CPU. */
import * as tf from '@tensorflow/tfjs';
import { vi } from 'vitest';

interface CpuBackend extends tf.KernelBackend {
  data: { get(dataId: object): { values: Float32Array } };
}

/**
 * Registers the CPU backend under the name `webgpu`, with the parts of the WebGPU backend that the
 * library uses: it overwrites the data of variables in place. Call it once, before `setBackend`.
 */
export async function registerFakeWebgpu(): Promise<void> {
  await tf.setBackend('cpu');
  const Backend = tf.backend().constructor as new () => CpuBackend;
  vi.stubGlobal('GPUMapMode', { READ: 1 });
  vi.stubGlobal('GPUBufferUsage', { MAP_READ: 1, COPY_DST: 8 });
  tf.registerBackend('webgpu', () => {
    const cpu = new Backend();
    const valuesOf = (dataId: object): Float32Array => cpu.data.get(dataId).values;
    return Object.assign(cpu, {
      submitQueue() {},
      ensureCommandEncoderReady() {},
      endComputePassEncoder() {},
      // A buffer of the GPU is the data id here. `values` is the cache on the CPU.
      tensorMap: { get: (dataId: object) => ({ resource: dataId, values: null }) },
      queue: {
        writeBuffer(dataId: object, _: number, flat: Float32Array, offset: number, size: number) {
          const { values } = cpu.data.get(dataId);
          values.set(flat.subarray(offset, offset + size));
        },
      },
      commandEncoder: {
        copyBufferToBuffer(dataId: object, _: number, to: { mapped: ArrayBuffer }, at: number, bytes: number) {
          new Uint8Array(to.mapped).set(new Uint8Array(Float32Array.from(valuesOf(dataId)).buffer, 0, bytes), at);
        },
      },
      device: {
        createBuffer: ({ size }: { size: number }) => {
          const mapped = new ArrayBuffer(size);
          return { size, mapped, mapAsync: async () => {}, getMappedRange: () => mapped, unmap() {}, destroy() {} };
        },
      },
    });
  });
  tf.copyRegisteredKernels('cpu', 'webgpu');
  await tf.setBackend('webgpu');
}
