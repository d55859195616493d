/**
 * Conversion between TensorFlow.js tensors and flat Float32Arrays: reads gradients, writes
 * parameters. On WebGPU it uses the backend's own buffers, which is ten times faster than `data()`
 * on each tensor; on WebAssembly it uses the module's memory; elsewhere it uses the public API.
 */
import * as tf from '@tensorflow/tfjs';
import { DeviceError } from '../../util/errors.ts';
import { openCommandEncoder, webgpuBackend, type WebGpuBackend } from '../../gpu/backend.ts';
import { forgetTensorCopies, wasmTensorPlaceOf, wasmBackend, type WasmBackend } from '../../wasm/backend.ts';
import type { ParameterSlot } from '../flat/buckets.ts';
import { freeTensorsOnError, gradientReadyOrderOf, watchGradients, type GradientListener } from './tape.ts';

export type Model = tf.LayersModel;
export type Scalar = tf.Scalar;
export type Tensor = tf.Tensor;
export type Variable = tf.Variable;

/** A forward pass through a LayersModel in training mode, and the loss of its outputs. */
export interface ModelPass<Outputs extends Tensor | Tensor[] = Tensor> {
  /** One tensor per input of the model. */
  inputs: Tensor | Tensor[];
  /**
   * Computes the scalar loss of this rank's samples from the model's output, or from all outputs if
   * the model has several.
   */
  loss: (outputs: Outputs) => Scalar;
  /**
   * Computes metrics from the same outputs, as a float32 tensor. DDP's option `metrics` is the
   * number of its values. They are averaged over the ranks in the same way as the loss.
   */
  metrics?: (outputs: Outputs) => Tensor;
}

/** Trainable variables in forward order, and the other variables (PyTorch calls them buffers). */
export interface ModelVariables {
  /** The model; `null` if the caller passed a list of variables. */
  model: Model | null;
  parameters: readonly Variable[];
  buffers: readonly Variable[];
}

/** Returns the variables of a model, or of a list in forward order, without duplicates. */
export function variablesOf(model: Model | readonly Variable[]): ModelVariables {
  if (model instanceof tf.LayersModel) {
    return { model, parameters: variablesIn(model.trainableWeights), buffers: variablesIn(model.nonTrainableWeights) };
  }
  const all = [...new Set(model)];
  return {
    model: null,
    parameters: all.filter(({ trainable }) => trainable),
    buffers: all.filter(({ trainable }) => !trainable),
  };
}

/**
 * Runs `main` and then restores the model's buffers, because a pass changes the averages of batch
 * normalization.
 */
export async function runRestoringModelBuffers(
  model: Model | readonly Variable[],
  main: () => Promise<void>,
): Promise<void> {
  const { buffers } = variablesOf(model);
  const before = buffers.map((buffer) => buffer.clone());
  try {
    await main();
  } finally {
    for (const [i, buffer] of buffers.entries()) buffer.assign(before[i]!);
    tf.dispose(before);
  }
}

/** The `read()` of a LayerVariable returns the tf.Variable itself, not a copy. */
function variablesIn(weights: tf.LayersModel['weights']): Variable[] {
  return [...new Set(weights.map((weight) => weight.read() as tf.Variable))];
}

/** Returns inputs with zero samples for a model. */
export function emptyInputs({ inputs }: Model): { inputs: Tensor[]; dispose: () => void } {
  const tensors = inputs.map(({ shape, dtype }) => tf.zeros([0, ...shape.slice(1).map((side) => side ?? 1)], dtype));
  return { inputs: tensors, dispose: () => tf.dispose(tensors) };
}

export interface ComputedGradients {
  /** The loss times the scale. */
  value: Scalar;
  /** The metrics of a {@link ModelPass} times the scale. */
  metrics?: Tensor;
  /**
   * One gradient for each variable, in the order of the variables. It is zero if the loss does not
   * depend on the variable.
   */
  gradients: Tensor[];
  /** For each variable, whether the loss depends on it. */
  used: boolean[];
  /**
   * Indices of the variables in the order in which back-propagation finished their gradients;
   * unused variables last.
   */
  readyOrder: number[];
  dispose(): void;
}

/**
 * Runs `loss` and differentiates `scale` times its result by each of `variables`. The caller
 * disposes of the result.
 *
 * @param onfinal see {@link watchGradients}.
 */
export function gradientsOf(
  loss: () => Scalar,
  variables: readonly Variable[],
  scale: number,
  onfinal?: GradientListener,
): ComputedGradients {
  let readyOrder: number[] = [];
  const compute = (): { value: Scalar; grads: tf.NamedTensorMap } =>
    tf.variableGrads(() => {
      const scaled = scale === 1 ? loss() : loss().mul<Scalar>(scale);
      readyOrder = gradientReadyOrderOf(variables, scaled);
      if (onfinal) watchGradients(variables, scaled, onfinal);
      return scaled;
    }, [...variables]);
  const { value, grads } = freeTensorsOnError(compute);
  const found = variables.map(({ name }): Tensor | undefined => grads[name]);
  const gradients = found.map((gradient, i) => gradient ?? tf.zerosLike(variables[i]!));
  const used = found.map((gradient) => gradient !== undefined);
  return { value, gradients, used, readyOrder, dispose: () => tf.dispose([value, gradients]) };
}

/** Computes a tensor and multiplies it by `scale`. The result outlives the scopes of the pass. */
export function keepScaledTensor(compute: () => Tensor, scale: number): Tensor {
  return tf.keep(tf.tidy(() => compute().mul(scale)));
}

export function disposeAll(...all: readonly { dispose(): void }[]): void {
  for (const each of all) each.dispose();
}

/** Tensors that are being read. */
export interface PendingTensorRead {
  /**
   * Writes the values to `into`, in order and without gaps.
   *
   * @param add whether to add the values to the old values of `into`. By default they replace the
   *   old values.
   * @returns the values that do not fit in `into`. These are values of the last tensors.
   * @throws (rejects) DeviceError if the GPU device is lost.
   */
  into(into: Float32Array, options?: { add?: boolean }): Promise<number[]>;
}

/**
 * Reads groups of tensors with one staging buffer and one `mapAsync` per group. Reuse a reader
 * while the sizes of its groups stay the same: the reader then creates its staging buffers only
 * once. One buffer per group is enough: back-propagation is recorded in one synchronous call, so
 * all copies are recorded before a `mapAsync` can be awaited.
 */
export class TensorReader {
  readonly #staging = new Map<number, { buffer: GPUBuffer; isBusy: boolean }>();

  /** Reads `tensors` into `into`: {@link start} and {@link PendingTensorRead.into} in one call. */
  async read(group: number, tensors: readonly Tensor[], into: Float32Array): Promise<void> {
    await this.start(group, tensors).into(into);
  }

  /**
   * Records a copy of `tensors` (float32) after the commands recorded so far. Do not dispose of the
   * tensors, or change them, before the values are read. Several groups may be read at the same
   * time. A read that is not used is dropped when the next read of its group starts.
   *
   * @param group selects the staging buffer.
   */
  start(group: number, tensors: readonly Tensor[]): PendingTensorRead {
    const backend = webgpuBackend();
    if (backend) return this.#copy(backend, group, tensors);
    const wasm = wasmBackend();
    return wasm ? viewEach(wasm, tensors) : readEach(tensors);
  }

  dispose(): void {
    for (const { buffer } of this.#staging.values()) buffer.destroy();
    this.#staging.clear();
  }

  #copy(backend: WebGpuBackend, group: number, tensors: readonly Tensor[]): PendingTensorRead {
    const bytes = tensors.reduce((sum, { size }) => sum + size, 0) * Float32Array.BYTES_PER_ELEMENT;
    const staging = this.#stagingFor(backend.device, group, bytes);
    const { buffer } = staging;
    const encoder = openCommandEncoder(backend);
    /**
     * `onCpu`: the values of a tensor that was never on the GPU, such as a small tensor; otherwise
     * `null`.
     */
    const parts: { at: number; size: number; onCpu: Float32Array | null }[] = [];
    let at = 0;
    for (const { dataId, size } of tensors) {
      const { resource, values } = backend.tensorMap.get(dataId);
      if (resource) encoder.copyBufferToBuffer(resource as GPUBuffer, 0, buffer, at * 4, size * 4);
      parts.push({ at, size, onCpu: resource ? null : (values as Float32Array) });
      at += size;
    }
    backend.submitQueue();
    const mapped = buffer.mapAsync(GPUMapMode.READ);
    // Without this, a failure before a caller awaits `mapped` would be an unhandled rejection.
    mapped.catch(() => {});
    return {
      into: async (into, { add = false } = {}) => {
        try {
          await mapped;
        } catch (error) {
          throw new DeviceError(
            'The GPU stopped answering while gradients were read. Reload the page to continue.',
            {},
            { cause: error },
          );
        }
        const all = new Float32Array(buffer.getMappedRange());
        const rest = put(
          into,
          parts.map((part) => part.onCpu ?? all.subarray(part.at, part.at + part.size)),
          add,
        );
        buffer.unmap();
        staging.isBusy = false;
        return rest;
      },
    };
  }

  #stagingFor(device: GPUDevice, group: number, bytes: number): { buffer: GPUBuffer; isBusy: boolean } {
    const existing = this.#staging.get(group);
    if (existing && !existing.isBusy && existing.buffer.size === bytes) {
      existing.isBusy = true;
      return existing;
    }
    existing?.buffer.destroy();
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    const staging = { buffer: device.createBuffer({ size: bytes, usage }), isBusy: true };
    this.#staging.set(group, staging);
    return staging;
  }
}

/** Copies tensors directly from the memory of the WebAssembly module. */
function viewEach(backend: WasmBackend, tensors: readonly Tensor[]): PendingTensorRead {
  return {
    into: async (into, { add = false } = {}) => {
      const views = tensors.map((tensor) => backend.typedArrayFromHeap(tensor) as Float32Array);
      return put(into, views, add);
    },
  };
}

/** Reads tensors with TensorFlow.js's public API. */
function readEach(tensors: readonly Tensor[]): PendingTensorRead {
  const values = Promise.all(tensors.map((tensor) => tensor.data<'float32'>()));
  // A failure must not count as unhandled before a caller awaits `values`.
  values.catch(() => {});
  return { into: async (into, { add = false } = {}) => put(into, await values, add) };
}

/** Writes `parts` one after the other to `into`; returns the values that do not fit. */
function put(into: Float32Array, parts: readonly Float32Array[], add: boolean): number[] {
  const rest: number[] = [];
  let at = 0;
  for (const part of parts) {
    if (at >= into.length) rest.push(...part);
    else if (add) addAt(into, at, part);
    else into.set(part, at);
    at += part.length;
  }
  return rest;
}

function addAt(into: Float32Array, at: number, values: Float32Array): void {
  for (let i = 0; i < values.length; i++) into[at + i]! += values[i]!;
}

/** Reads the model's variables into the flat parameters. */
export async function readVariables(
  variables: readonly Variable[],
  slots: readonly ParameterSlot[],
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

/** For each data id of a variable, an object that each write in place replaces. */
const overwritten = new WeakMap<object, object>();

/**
 * Returns an object that stands for a variable's present values. {@link writeVariables} and
 * `assign`, which `setWeights` calls, replace the object.
 */
export function versionOfVariable({ dataId }: Variable): object {
  return overwritten.get(dataId) ?? dataId;
}

/** Copies each parameter from its slot in `flat` to the model's variable. */
export function writeVariables(
  variables: readonly Variable[],
  slots: readonly ParameterSlot[],
  flat: Float32Array<ArrayBuffer>,
): void {
  const [backend, wasm] = [webgpuBackend(), wasmBackend()];
  if (backend) {
    // Commands that are recorded but not submitted yet must still read the old values, so they are
    // submitted before the values change.
    openCommandEncoder(backend);
    backend.submitQueue();
  }
  for (const { parameter, offset, size } of slots) {
    const variable = variables[parameter]!;
    const data = backend?.tensorMap.get(variable.dataId);
    // Only a buffer that no other tensor shares may be overwritten in place.
    if (backend && data?.resource && backend.refCount(variable.dataId) === 1) {
      backend.queue.writeBuffer(data.resource as GPUBuffer, 0, flat, offset, size);
      // Removes the copy of the old values that is cached on the CPU. Otherwise a read would return
      // this copy.
      (data as { values: unknown }).values = null;
      overwritten.set(variable.dataId, {});
    } else if (wasm && wasm.refCount(variable.dataId) === 1) {
      (wasm.typedArrayFromHeap(variable) as Float32Array).set(flat.subarray(offset, offset + size));
      forgetTensorCopies(wasm, wasmTensorPlaceOf(wasm, variable), size);
      overwritten.set(variable.dataId, {});
    } else {
      // Until its upload, a tensor shares the memory of its array. The flat array changes in the
      // next step, so the tensor receives a copy.
      const next = tf.tensor(flat.slice(offset, offset + size), variable.shape, 'float32');
      variable.assign(next);
      next.dispose();
    }
  }
}
