/**
 * Between TensorFlow.js tensors and flat Float32Arrays: reading gradients back, writing parameters. On WebGPU both go
 * through the backend's own buffers, an order of magnitude faster than a `data()` per tensor; elsewhere through the public
 * ways.
 */
import * as tf from '@tensorflow/tfjs';
import type { WebGPUBackend } from '@tensorflow/tfjs-backend-webgpu';
import { DeviceError, UsageError } from '../util/errors.ts';
import type { Slot } from './buckets.ts';

export type Model = tf.LayersModel;
export type Scalar = tf.Scalar;
export type Variable = tf.Variable;

/** A model's trainable variables in forward order; a list of variables is one already. */
export function variablesOf(model: Model | readonly Variable[]): readonly Variable[] {
  if (!(model instanceof tf.LayersModel)) return model;
  if (model.nonTrainableWeights.length > 0) {
    const names = model.nonTrainableWeights.map((weight) => weight.name).join(', ');
    throw new UsageError(
      `DistributedDataParallel cannot keep these weights equal yet, as training does not touch them: ${names}.`,
    );
  }
  // A LayerVariable's read() hands out the tf.Variable itself.
  return model.trainableWeights.map((weight) => weight.read() as tf.Variable);
}

export interface Gradients {
  /** The loss times `scale`. */
  value: Scalar;
  /** One per variable, in their order; zero where the loss does not depend on it. */
  gradients: tf.Tensor[];
  dispose(): void;
}

/** Runs `loss` and differentiates `scale` times it by each of `variables`. The caller disposes of the result. */
export function gradientsOf(loss: () => Scalar, variables: readonly Variable[], scale: number): Gradients {
  const { value, grads } = tf.variableGrads(() => (scale === 1 ? loss() : loss().mul<Scalar>(scale)), [...variables]);
  const gradients = variables.map((variable) => grads[variable.name] ?? tf.zerosLike(variable));
  return { value, gradients, dispose: () => tf.dispose([value, gradients]) };
}

/** What of TensorFlow.js's WebGPU backend is needed here; `commandEncoder` is private in its own types. */
interface WebGPUInternals extends Pick<
  WebGPUBackend,
  'device' | 'queue' | 'tensorMap' | 'refCount' | 'submitQueue' | 'ensureCommandEncoderReady' | 'endComputePassEncoder'
> {
  commandEncoder: GPUCommandEncoder | null;
}

/** The WebGPU backend if it is the one in use. */
function webgpuBackend(): WebGPUInternals | null {
  return tf.getBackend() === 'webgpu' ? (tf.backend() as unknown as WebGPUInternals) : null;
}

/** Ends the pass that is being recorded, so that copies can be recorded behind it. */
function openEncoder(backend: WebGPUInternals): GPUCommandEncoder {
  backend.ensureCommandEncoderReady();
  backend.endComputePassEncoder();
  return backend.commandEncoder!;
}

/**
 * Reads groups of tensors, one staging buffer and one map a group. Keep one reader for groups whose sizes stay the same:
 * its staging buffers are made once.
 */
export class TensorReader {
  readonly #staging = new Map<number, GPUBuffer>();

  /**
   * Reads `tensors` (float32), in order and without gaps, into `into`, whose length is theirs together. What to copy is fixed
   * when it is called; the tensors must live until it resolves. Several groups may be read at once.
   *
   * @param group which staging buffer to use; one read of a group at a time.
   * @throws (rejects) DeviceError where the GPU device is lost.
   */
  async read(group: number, tensors: readonly tf.Tensor[], into: Float32Array): Promise<void> {
    const backend = webgpuBackend();
    if (!backend) {
      const values = await Promise.all(tensors.map((tensor) => tensor.data<'float32'>()));
      let at = 0;
      for (const part of values) {
        into.set(part, at);
        at += part.length;
      }
      return;
    }
    const staging = this.#stagingFor(backend.device, group, into.byteLength);
    const encoder = openEncoder(backend);
    /** Small tensors may never have been on the GPU. */
    const onCpu: { at: number; values: Float32Array }[] = [];
    let at = 0;
    for (const tensor of tensors) {
      const { resource, values } = backend.tensorMap.get(tensor.dataId);
      if (resource) encoder.copyBufferToBuffer(resource as GPUBuffer, 0, staging, at * 4, tensor.size * 4);
      else onCpu.push({ at, values: values as Float32Array });
      at += tensor.size;
    }
    backend.submitQueue();
    try {
      await staging.mapAsync(GPUMapMode.READ);
    } catch (error) {
      throw new DeviceError(
        'The GPU stopped answering while gradients were read: reload the page to go on.',
        {},
        { cause: error },
      );
    }
    into.set(new Float32Array(staging.getMappedRange()));
    staging.unmap();
    for (const { at: offset, values } of onCpu) into.set(values, offset);
  }

  dispose(): void {
    for (const buffer of this.#staging.values()) buffer.destroy();
    this.#staging.clear();
  }

  #stagingFor(device: GPUDevice, group: number, bytes: number): GPUBuffer {
    const existing = this.#staging.get(group);
    if (existing?.size === bytes) return existing;
    existing?.destroy();
    const buffer = device.createBuffer({ size: bytes, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    this.#staging.set(group, buffer);
    return buffer;
  }
}

/** Reads the model's variables into the flat parameters. */
export async function readVariables(
  variables: readonly tf.Variable[],
  slots: readonly Slot[],
  flat: Float32Array,
): Promise<void> {
  const reader = new TensorReader();
  try {
    await reader.read(
      0,
      slots.map(({ parameter }) => variables[parameter]!),
      flat,
    );
  } finally {
    reader.dispose();
  }
}

/** Writes the flat parameters into the model's variables, each at its slot. */
export function writeVariables(
  variables: readonly tf.Variable[],
  slots: readonly Slot[],
  flat: Float32Array<ArrayBuffer>,
): void {
  const backend = webgpuBackend();
  if (backend) {
    // What is recorded but not submitted still has to see the old values.
    openEncoder(backend);
    backend.submitQueue();
  }
  for (const { parameter, offset, size } of slots) {
    const variable = variables[parameter]!;
    const data = backend?.tensorMap.get(variable.dataId);
    // Only a buffer that no other tensor shares may be overwritten in place.
    if (backend && data?.resource && backend.refCount(variable.dataId) === 1) {
      backend.queue.writeBuffer(data.resource as GPUBuffer, 0, flat, offset, size);
      // A cached copy on the CPU would be read instead of the buffer.
      (data as { values: unknown }).values = null;
    } else {
      // A tensor aliases its array until upload, and the flat array changes with the next step: give it a copy.
      const next = tf.tensor(flat.slice(offset, offset + size), variable.shape, 'float32');
      variable.assign(next);
      next.dispose();
    }
  }
}
