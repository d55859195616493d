/**
 * Replays a recorded pass on WebAssembly. A replay calls the functions of the module in the
 * recorded order, without the tape, tensors and kernels in JavaScript.
 */
import * as tf from '@tensorflow/tfjs';
import type { PassReplay } from '../gpu/passRecorder.ts';
import {
  allocateWasmMemory,
  tensorByteLength,
  forgetTensorCopies,
  freeWasmMemory,
  newWasmTensorId,
  wasmTensorPlaceOf,
  type WasmTensorPlace,
  type WasmBackend,
} from './backend.ts';
import type { TensorBlockLayout } from './blockLayout.ts';
import type { RecordedConstant, RecordedWasmTensor, WasmEvent } from './recording.ts';

/** Tensors of a recorded pass that exist before it. */
export interface PinnedReplayTensors {
  parameters: readonly (WasmTensorPlace & { size: number })[];
  inputs: readonly RecordedWasmTensor[];
  constants: readonly RecordedConstant[];
}

export class WasmReplay implements PassReplay {
  readonly outputs: readonly tf.Tensor[];
  readonly #backend: WasmBackend;
  readonly #events: readonly WasmEvent[];
  readonly #pinned: PinnedReplayTensors;
  /** The offset of the block with all tensors except parameters. */
  readonly #block: number;
  /** The numbers of the tensors in the block. */
  readonly #ids: readonly number[];
  /** The offsets of all tensors in the module's memory, by number. */
  readonly #offsets: Map<number, number>;
  /** For each call of this project's module: its arguments. */
  readonly #addresses = new Map<WasmEvent, readonly number[]>();
  /** The tensors that kernels receive, by number. */
  readonly #infos = new Map<number, tf.TensorInfo>();
  /** The data ids of outputs and of tensors that kernels receive. */
  readonly #dataIds: object[] = [];

  /** @throws Error if there is not enough memory. */
  constructor(
    backend: WasmBackend,
    events: readonly WasmEvent[],
    pinned: PinnedReplayTensors,
    { offsets, bytes }: TensorBlockLayout,
    results: readonly tf.Tensor[],
  ) {
    const { wasm } = backend;
    this.#backend = backend;
    this.#events = events;
    this.#pinned = pinned;
    this.#block = allocateWasmMemory(backend, bytes);
    if (this.#block === 0) throw new Error(`WebAssembly has no memory for ${bytes} bytes`);
    this.#ids = [...offsets.keys()];
    this.#offsets = new Map([
      ...Array.from(offsets, ([id, offset]) => [id, this.#block + offset] as const),
      ...pinned.parameters.map(({ id, memoryOffset }) => [id, memoryOffset] as const),
    ]);
    for (const event of events) {
      if (event.kind === 'compute') {
        const addresses = event.args.map((one) =>
          typeof one === 'number' ? one : this.#offsets.get(one.id)! + one.at,
        );
        this.#addresses.set(event, addresses);
      }
    }
    for (const { id, values, shape } of pinned.constants) {
      const offset = this.#offsets.get(id)!;
      wasm.HEAPU8.set(values, offset);
      wasm.tfjs.registerTensor(id, tf.util.sizeFromShape(shape), offset);
    }
    const recorded = results.map((result) => ({
      id: wasmTensorPlaceOf(backend, result).id,
      shape: result.shape,
      dtype: result.dtype,
    }));
    for (const place of new Set(results.map((result) => wasmTensorPlaceOf(backend, result)))) {
      // The results of the recorded pass still exist. They get other numbers.
      wasm.tfjs.disposeData(place.id);
      place.id = newWasmTensorId();
    }
    for (const result of results) {
      const { id, memoryOffset } = wasmTensorPlaceOf(backend, result);
      wasm.tfjs.registerTensor(id, result.size, memoryOffset);
    }
    // Outputs may share memory. TensorFlow.js counts each of them only if it has its own data id.
    this.outputs = recorded.map((one) => tf.keep(tf.engine().makeTensorFromTensorInfo(this.#register(one))));
  }

  replay(inputs: readonly tf.Tensor[], onmark: (value: number) => void): void {
    const [backend, offsets] = [this.#backend, this.#offsets];
    const { tfjs } = backend.wasm;
    for (const [i, input] of inputs.entries()) {
      const { id } = this.#pinned.inputs[i]!;
      const [from, to] = [wasmTensorPlaceOf(backend, input).memoryOffset, offsets.get(id)!];
      backend.wasm.HEAPU8.copyWithin(to, from, from + tensorByteLength(input));
      forgetTensorCopies(backend, { id, memoryOffset: to }, input.size);
    }
    for (const parameter of this.#pinned.parameters) forgetTensorCopies(backend, parameter, parameter.size);
    for (const output of this.outputs) forgetTensorCopies(backend, wasmTensorPlaceOf(backend, output), output.size);
    for (const event of this.#events) {
      switch (event.kind) {
        case 'call':
          event.run(...event.args);
          break;
        case 'compute':
          event.run(...this.#addresses.get(event)!);
          break;
        case 'create':
          tfjs.registerTensor(event.id, event.size, offsets.get(event.id)!);
          break;
        case 'free':
          tfjs.disposeData(event.id);
          break;
        case 'write':
          backend.wasm.HEAPU8.set(event.values, offsets.get(event.id));
          break;
        case 'kernel':
          this.#runKernel(event);
          break;
        case 'mark':
          onmark(event.value);
          break;
        default:
          event satisfies never;
      }
    }
  }

  dispose(): void {
    const { dataIdMap, wasm } = this.#backend;
    // TensorFlow.js would free the memory of each tensor.
    for (const dataId of this.#dataIds) dataIdMap.delete(dataId);
    tf.dispose([...this.outputs]);
    for (const id of this.#ids) wasm.tfjs.disposeData(id);
    freeWasmMemory(this.#backend, this.#block);
  }

  #runKernel({ run, inputs, attrs, outputs }: Extract<WasmEvent, { kind: 'kernel' }>): void {
    const backend = this.#backend;
    const infos = Array.isArray(inputs)
      ? inputs.map((one: RecordedWasmTensor) => this.#infoOf(one))
      : Object.fromEntries(Object.entries(inputs).map(([name, one]) => [name, this.#infoOf(one)]));
    const results = [run({ inputs: infos as tf.NamedTensorInfoMap, attrs, backend })].flat();
    for (const [i, { dataId }] of results.entries()) {
      const [from, to] = [wasmTensorPlaceOf(backend, { dataId }).memoryOffset, this.#offsets.get(outputs[i]!.id)!];
      backend.wasm.HEAPU8.copyWithin(to, from, from + tensorByteLength(outputs[i]!));
      backend.disposeData(dataId);
    }
  }

  #infoOf(tensor: RecordedWasmTensor): tf.TensorInfo {
    const { id, shape, dtype } = tensor;
    const known = this.#infos.get(id) ?? this.#register(tensor);
    this.#infos.set(id, known);
    return { dataId: known.dataId, shape, dtype };
  }

  /** Gives a tensor of the replay a data id, by which TensorFlow.js finds its memory. */
  #register({ id, shape, dtype }: RecordedWasmTensor): tf.TensorInfo {
    const dataId = {};
    this.#dataIds.push(dataId);
    const memoryOffset = this.#offsets.get(id)!;
    // The reference of this replay keeps TensorFlow.js from freeing the memory.
    this.#backend.dataIdMap.set(dataId, { id, memoryOffset, shape: [...shape], dtype, refCount: 1 });
    return { dataId, shape, dtype };
  }
}
