/**
 * Records passes on the WebAssembly backend of TensorFlow.js, and replays them. A replay calls the
 * functions of the module in the recorded order, without the tape, tensors and kernels in
 * JavaScript. Its tensors are in one block of memory, whose parts are used several times in a pass,
 * as TensorFlow.js used its memory.
 */
import * as tf from '@tensorflow/tfjs';
import type { PassRecorder, PassRecording, PassReplay, PinnedTensors } from '../gpu/passRecorder.ts';
import {
  allocate,
  bytesOf,
  forgetCopies,
  free,
  newId,
  placeOf,
  wasmBackend,
  type Place,
  type WasmBackend,
} from './backend.ts';
import {
  canRecord,
  record,
  Renamed,
  type Argument,
  type Constant,
  type RecordedTensor,
  type WasmEvent,
} from './recording.ts';

/** Returns `null` if WebAssembly is not the current backend, or its kernels are not observed. */
export function wasmRecorder(): PassRecorder | null {
  const backend = wasmBackend();
  return backend && canRecord(backend) ? new WasmPassRecorder(backend) : null;
}

class WasmPassRecorder implements PassRecorder {
  readonly #backend: WasmBackend;

  constructor(backend: WasmBackend) {
    this.#backend = backend;
  }

  place(tensor: tf.Tensor): number {
    return placeOf(this.#backend, tensor).id;
  }

  record<T>(
    { parameters, inputs }: PinnedTensors,
    main: (mark: (value: number) => void) => T,
  ): { result: T; recording: PassRecording } {
    const backend = this.#backend;
    // The caller disposes of the inputs, so in the recording they have other numbers.
    const renamed = inputs.map((input) => new Renamed(backend, input));
    try {
      const known = [...parameters.map((one) => placeOf(backend, one).id), ...renamed.map(({ id }) => id)];
      const { result, events, constants } = record(backend, known, main);
      const pinned = {
        parameters: parameters.map((one) => ({ ...placeOf(backend, one), size: one.size })),
        inputs: inputs.map(({ shape, dtype }, i) => ({ id: renamed[i]!.id, shape, dtype })),
        constants,
      };
      return { result, recording: new WasmRecording(backend, events, pinned) };
    } finally {
      for (const one of renamed.toReversed()) one.restore();
    }
  }
}

interface Pinned {
  parameters: readonly (Place & { size: number })[];
  inputs: readonly RecordedTensor[];
  constants: readonly Constant[];
}

class WasmRecording implements PassRecording {
  readonly problem: string | null;
  readonly bytes: number;
  readonly #backend: WasmBackend;
  readonly #events: readonly WasmEvent[];
  readonly #pinned: Pinned;
  readonly #layout: Layout;

  constructor(backend: WasmBackend, events: readonly WasmEvent[], pinned: Pinned) {
    this.#backend = backend;
    this.#events = events;
    this.#pinned = pinned;
    this.#layout = layoutOf(events, [...pinned.inputs, ...pinned.constants]);
    this.bytes = this.#layout.bytes;
    this.problem = problemIn(events);
  }

  differenceFrom(earlier: WasmRecording): string | null {
    return differenceBetween([earlier.#events, earlier.#pinned], [this.#events, this.#pinned]);
  }

  async capture(results: readonly tf.Tensor[]): Promise<PassReplay> {
    const { offsets } = this.#layout;
    if (results.some((result) => !offsets.has(placeOf(this.#backend, result).id))) {
      throw new Error('a gradient is computed outside of the pass');
    }
    return new WasmReplay(this.#backend, this.#events, this.#pinned, this.#layout, results);
  }
}

/** Offsets of tensors, by their numbers, from the start of a block of memory. */
interface Layout {
  offsets: ReadonlyMap<number, number>;
  bytes: number;
}

/** XNNPACK reads up to 16 bytes behind the end of a tensor. */
const SPARE_BYTES = 16;
const ALIGNMENT = 16;

/**
 * Gives each tensor a place that no other tensor uses while it exists.
 *
 * @param before tensors that exist before the pass.
 */
function layoutOf(events: readonly WasmEvent[], before: readonly RecordedTensor[]): Layout {
  const offsets = new Map<number, number>();
  /** For each tensor and view: the memory that it uses. */
  const memories = new Map<number, { offset: number; length: number; users: number }>();
  /** Free parts of the block before its end, by offset. */
  let gaps: { offset: number; length: number }[] = [];
  let bytes = 0;
  const add = (id: number, size: number): void => {
    const length = Math.ceil((size + SPARE_BYTES) / ALIGNMENT) * ALIGNMENT;
    const gap = gaps.find((part) => part.length >= length);
    const offset = gap?.offset ?? bytes;
    if (gap === undefined) bytes += length;
    else {
      gap.offset += length;
      gap.length -= length;
    }
    offsets.set(id, offset);
    memories.set(id, { offset, length, users: 1 });
  };
  for (const one of before) add(one.id, bytesOf(one));
  for (const event of events) {
    if (event.kind === 'create') add(event.id, event.bytes);
    else if (event.kind === 'view') {
      // A view of a parameter is not in the block.
      const memory = memories.get(event.of);
      if (memory === undefined) continue;
      memory.users += 1;
      memories.set(event.id, memory);
      offsets.set(event.id, offsets.get(event.of)! + event.at);
    } else if (event.kind === 'free') {
      const memory = memories.get(event.id);
      if (memory === undefined) continue;
      memory.users -= 1;
      if (memory.users === 0) gaps = joined([...gaps, memory]);
    }
  }
  return { offsets, bytes };
}

/** Joins neighbouring parts. */
function joined(parts: readonly { offset: number; length: number }[]): { offset: number; length: number }[] {
  const result: { offset: number; length: number }[] = [];
  for (const { offset, length } of parts.toSorted((a, b) => a.offset - b.offset)) {
    const last = result.at(-1);
    if (last && last.offset + last.length === offset) last.length += length;
    else if (length > 0) result.push({ offset, length });
  }
  return result;
}

/** Returns why a recording cannot be replayed, or `null`. */
function problemIn(events: readonly WasmEvent[]): string | null {
  const created = new Set<number>();
  for (const event of events) {
    if (event.kind === 'create') {
      if (event.size > 0 && event.bytes === 0) return 'a kernel allocates its result itself';
      created.add(event.id);
    } else if (event.kind === 'view') created.add(event.id);
    else if (event.kind === 'free' && !created.has(event.id)) return 'it frees a tensor that exists before it';
  }
  return null;
}

/**
 * Returns the first difference between two recordings as a phrase; `null` if they are equal except
 * for the numbers of their tensors.
 */
function differenceBetween(
  [first, firstPinned]: readonly [readonly WasmEvent[], Pinned],
  [second, secondPinned]: readonly [readonly WasmEvent[], Pinned],
): string | null {
  if (first.length !== second.length) return `the numbers of commands are ${first.length} and ${second.length}`;
  const partners = new Map<number, number>();
  const constants = secondPinned.constants;
  const areConstant =
    firstPinned.constants.length === constants.length &&
    firstPinned.constants.every(({ values }, i) => areEqual(values, constants[i]!.values));
  if (!areConstant) return 'tensors that exist before it changed';
  for (const name of ['parameters', 'inputs', 'constants'] as const) {
    for (const [i, { id }] of firstPinned[name].entries()) partners.set(id, secondPinned[name][i]!.id);
  }
  const isSame = (a: number, b: number): boolean => partners.get(a) === b;
  const isSameArgument = (a: Argument, b: Argument): boolean =>
    a instanceof Uint8Array && b instanceof Uint8Array
      ? areEqual(a, b)
      : a === b || (typeof a === 'number' && typeof b === 'number' && isSame(a, b));
  const isSameTensor = (a: RecordedTensor, b: RecordedTensor): boolean =>
    isSame(a.id, b.id) && a.dtype === b.dtype && tf.util.arraysEqual(a.shape, b.shape);
  for (const [i, a] of first.entries()) {
    const b = second[i]!;
    const at = `at command ${i}`;
    if (a.kind === 'create' && b.kind === 'create') {
      if (a.bytes !== b.bytes) return `${at}, a tensor has another size`;
      partners.set(a.id, b.id);
    } else if (a.kind === 'view' && b.kind === 'view') {
      if (!isSame(a.of, b.of) || a.at !== b.at || a.size !== b.size) return `${at}, another part is used`;
      partners.set(a.id, b.id);
    } else if (a.kind === 'write' && b.kind === 'write') {
      if (!isSame(a.id, b.id) || !areEqual(a.values, b.values)) return `${at}, values that JavaScript computes changed`;
    } else if (a.kind === 'call' && b.kind === 'call') {
      const isEqual = a.run === b.run && a.args.every((argument, k) => isSameArgument(argument, b.args[k]!));
      if (!isEqual) return `${at}, another function runs, or with other arguments`;
    } else if (a.kind === 'kernel' && b.kind === 'kernel') {
      const tensors = (event: typeof a): RecordedTensor[] => [...Object.values(event.inputs), ...event.outputs];
      const isEqual =
        a.run === b.run &&
        JSON.stringify(a.attrs) === JSON.stringify(b.attrs) &&
        tensors(a).length === tensors(b).length &&
        tensors(a).every((one, k) => isSameTensor(one, tensors(b)[k]!));
      if (!isEqual) return `${at}, another kernel runs, or with other inputs`;
    } else if (a.kind === 'free' && b.kind === 'free') {
      if (!isSame(a.id, b.id)) return `${at}, another tensor is freed`;
    } else if (a.kind !== 'mark' || b.kind !== 'mark' || a.value !== b.value) return `${at}, the order changed`;
  }
  return null;
}

function areEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

class WasmReplay implements PassReplay {
  readonly outputs: readonly tf.Tensor[];
  readonly #backend: WasmBackend;
  readonly #events: readonly WasmEvent[];
  readonly #pinned: Pinned;
  /** The offset of the block with all tensors except parameters. */
  readonly #block: number;
  /** The numbers of the tensors in the block. */
  readonly #ids: readonly number[];
  /** The offsets of all tensors in the module's memory, by number. */
  readonly #offsets: Map<number, number>;
  /** The tensors that kernels receive, by number. */
  readonly #infos = new Map<number, tf.TensorInfo>();

  /** @throws Error if there is not enough memory. */
  constructor(
    backend: WasmBackend,
    events: readonly WasmEvent[],
    pinned: Pinned,
    { offsets, bytes }: Layout,
    results: readonly tf.Tensor[],
  ) {
    const { wasm } = backend;
    this.#backend = backend;
    this.#events = events;
    this.#pinned = pinned;
    this.#block = allocate(backend, bytes);
    if (this.#block === 0) throw new Error(`WebAssembly has no memory for ${bytes} bytes`);
    this.#ids = [...offsets.keys()];
    this.#offsets = new Map([
      ...Array.from(offsets, ([id, offset]) => [id, this.#block + offset] as const),
      ...pinned.parameters.map(({ id, memoryOffset }) => [id, memoryOffset] as const),
    ]);
    for (const event of events) {
      if (event.kind === 'view') this.#offsets.set(event.id, this.#offsets.get(event.of)! + event.at);
    }
    for (const { id, values, shape } of pinned.constants) {
      const offset = this.#offsets.get(id)!;
      wasm.HEAPU8.set(values, offset);
      wasm.tfjs.registerTensor(id, tf.util.sizeFromShape(shape), offset);
    }
    const recorded = results.map((result) => ({
      id: placeOf(backend, result).id,
      shape: result.shape,
      dtype: result.dtype,
    }));
    for (const place of new Set(results.map((result) => placeOf(backend, result)))) {
      // The results of the recorded pass still exist. They get other numbers.
      wasm.tfjs.disposeData(place.id);
      place.id = newId();
    }
    for (const result of results) {
      const { id, memoryOffset } = placeOf(backend, result);
      wasm.tfjs.registerTensor(id, result.size, memoryOffset);
    }
    this.outputs = recorded.map((one) => tf.keep(tf.engine().makeTensorFromTensorInfo(this.#infoOf(one))));
  }

  replay(inputs: readonly tf.Tensor[], onmark: (value: number) => void): void {
    const [backend, offsets] = [this.#backend, this.#offsets];
    const { tfjs } = backend.wasm;
    for (const [i, input] of inputs.entries()) {
      const { id } = this.#pinned.inputs[i]!;
      const [from, to] = [placeOf(backend, input).memoryOffset, offsets.get(id)!];
      backend.wasm.HEAPU8.copyWithin(to, from, from + bytesOf(input));
      forgetCopies(backend, { id, memoryOffset: to }, input.size);
    }
    for (const parameter of this.#pinned.parameters) forgetCopies(backend, parameter, parameter.size);
    for (const output of this.outputs) forgetCopies(backend, placeOf(backend, output), output.size);
    for (const event of this.#events) {
      switch (event.kind) {
        case 'call':
          event.run(...event.args);
          break;
        case 'create':
        case 'view':
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
    for (const { dataId } of this.#infos.values()) dataIdMap.delete(dataId);
    tf.dispose([...this.outputs]);
    for (const id of this.#ids) wasm.tfjs.disposeData(id);
    free(this.#backend, this.#block);
  }

  #runKernel({ run, inputs, attrs, outputs }: Extract<WasmEvent, { kind: 'kernel' }>): void {
    const backend = this.#backend;
    const infos = Array.isArray(inputs)
      ? inputs.map((one: RecordedTensor) => this.#infoOf(one))
      : Object.fromEntries(Object.entries(inputs).map(([name, one]) => [name, this.#infoOf(one)]));
    const results = [run({ inputs: infos as tf.NamedTensorInfoMap, attrs, backend })].flat();
    for (const [i, { dataId }] of results.entries()) {
      const [from, to] = [placeOf(backend, { dataId }).memoryOffset, this.#offsets.get(outputs[i]!.id)!];
      backend.wasm.HEAPU8.copyWithin(to, from, from + bytesOf(outputs[i]!));
      backend.disposeData(dataId);
    }
  }

  #infoOf({ id, shape, dtype }: RecordedTensor): tf.TensorInfo {
    const known = this.#infos.get(id) ?? { dataId: {}, shape, dtype };
    if (!this.#infos.has(id)) {
      this.#infos.set(id, known);
      const memoryOffset = this.#offsets.get(id)!;
      // The reference of this replay keeps TensorFlow.js from freeing the memory.
      this.#backend.dataIdMap.set(known.dataId, { id, memoryOffset, shape: [...shape], dtype, refCount: 1 });
    }
    return { dataId: known.dataId, shape, dtype };
  }
}
