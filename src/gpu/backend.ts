/**
 * Access to TensorFlow.js's WebGPU backend. Only this file uses members that TensorFlow.js's types
 * hide. test/gpu/backend.test.ts checks that these members exist and work as described here.
 */
import * as tf from '@tensorflow/tfjs';
import type { WebGPUBackend } from '@tensorflow/tfjs-backend-webgpu';

/**
 * The parts of the backend that this project uses. TensorFlow.js's types hide the last two members.
 */
export interface WebGpuBackend extends Pick<
  WebGPUBackend,
  | 'device'
  | 'queue'
  | 'tensorMap'
  | 'refCount'
  | 'submitQueue'
  | 'ensureCommandEncoderReady'
  | 'endComputePassEncoder'
  | 'runWebGPUProgram'
  | 'makeTensorInfo'
  | 'uploadToGPU'
  | 'incRef'
  | 'disposeData'
> {
  /** The encoder that ops are recorded to, until the next submission. */
  commandEncoder: GPUCommandEncoder | null;
  /**
   * Pipelines by the keys of their shaders. In the mode WEBGPU_ENGINE_COMPILE_ONLY, they are
   * promises.
   */
  readonly pipelineCache: Record<string, GPUComputePipeline | Promise<GPUComputePipeline>>;
}

/** Returns the WebGPU backend; `null` if TensorFlow.js's current backend is a different one. */
export function webgpuBackend(): WebGpuBackend | null {
  return tf.getBackend() === 'webgpu' ? (tf.backend() as unknown as WebGpuBackend) : null;
}

/**
 * Ends the compute pass that is being recorded, and returns the encoder, so that copies can be
 * recorded after the pass.
 */
export function openCommandEncoder(backend: WebGpuBackend): GPUCommandEncoder {
  backend.ensureCommandEncoderReady();
  backend.endComputePassEncoder();
  return backend.commandEncoder!;
}
