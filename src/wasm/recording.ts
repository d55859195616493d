/**
 * Records what kernels do during a synchronous call: the functions of the WebAssembly module that
 * they call, the tensors that they create and free, and the values that JavaScript writes.
 */
import * as tf from '@tensorflow/tfjs';
import {
  ALLOCATE,
  allocateWasmMemory,
  tensorByteLength,
  freeWasmMemory,
  isOwnWasmTensorId,
  newWasmTensorId,
  wasmTensorPlaceOf,
  type WasmBackend,
} from './backend.ts';

export type WasmArgument = number | boolean | Uint8Array | null;
type ModuleFunction = (...args: WasmArgument[]) => unknown;

/** A tensor of a recorded pass. `id` is its number in the module. */
export interface RecordedWasmTensor extends Pick<tf.TensorInfo, 'shape' | 'dtype'> {
  id: number;
}

/** The byte `at` of a tensor. */
export interface RecordedPointer {
  id: number;
  at: number;
}

export type WasmEvent =
  /** A function of the module computes. Some of the arguments are numbers of tensors. */
  | { kind: 'call'; run: ModuleFunction; args: readonly WasmArgument[] }
  /** A function of this project's module computes. */
  | { kind: 'compute'; run: (...args: number[]) => void; args: readonly (number | RecordedPointer)[] }
  | { kind: 'create'; id: number; size: number; bytes: number }
  | { kind: 'free'; id: number }
  /** JavaScript writes values that do not depend on other tensors. */
  | { kind: 'write'; id: number; values: Uint8Array }
  /** A kernel computes in JavaScript. */
  | {
      kind: 'kernel';
      run: tf.KernelFunc;
      /** By name, or by position for kernels such as Concat. */
      inputs: Readonly<Record<string, RecordedWasmTensor>> | readonly RecordedWasmTensor[];
      attrs: tf.NamedAttrMap;
      outputs: readonly RecordedWasmTensor[];
    }
  /** A mark that the caller set. */
  | { kind: 'mark'; value: number };

/** Kernels whose results depend on the shapes of their inputs only. */
const CONSTANT: ReadonlySet<string> = new Set(['OnesLike', 'ZerosLike']);
/**
 * Value that fills the memory of new tensors while a pass is recorded: as a byte, and four times.
 */
const UNWRITTEN = 0xa5;
const UNWRITTEN_WORD = 0xa5a5a5a5;

/** Values of a tensor that exists before the pass. */
export interface RecordedConstant extends RecordedWasmTensor {
  values: Uint8Array;
}

class WasmRecorder {
  readonly events: WasmEvent[] = [];
  readonly constants: RecordedConstant[] = [];
  readonly #backend: WasmBackend;
  /** The numbers of parameters, inputs, constants, and tensors of the pass. */
  readonly #known: Set<number>;
  readonly #renamed: RenumberedTensor[] = [];
  /** The latest created tensor, until the next event shows whether JavaScript wrote its values. */
  #created: { id: number; offset: number; bytes: number } | null = null;

  constructor(backend: WasmBackend, known: Iterable<number>) {
    this.#backend = backend;
    this.#known = new Set(known);
  }

  add(event: WasmEvent): void {
    this.checkCreated();
    this.events.push(event);
  }

  create(id: number, size: number, offset: number, bytes: number): void {
    this.add({ kind: 'create', id, size, bytes });
    this.#backend.wasm.HEAPU8.fill(UNWRITTEN, offset, offset + bytes);
    this.#created = { id, offset, bytes };
    this.#known.add(id);
  }

  /** Gives the constants their numbers back. */
  restore(): void {
    for (const one of this.#renamed.toReversed()) one.restore();
  }

  /** Receives a number of this project that was freed. */
  freed(id: number): void {
    if (this.#renamed.some((one) => one.id === id)) this.add({ kind: 'free', id });
  }

  checkCreated(): void {
    if (this.#created === null) return;
    const { id, offset, bytes } = this.#created;
    this.#created = null;
    const { buffer } = this.#backend.wasm.HEAPU8;
    const isUnwritten =
      new Uint32Array(buffer, offset, Math.floor(bytes / 4)).every((word) => word === UNWRITTEN_WORD) &&
      new Uint8Array(buffer, offset, bytes).subarray(-4).every((byte) => byte === UNWRITTEN);
    if (!isUnwritten) this.events.push({ kind: 'write', id, values: new Uint8Array(buffer, offset, bytes).slice() });
  }

  /**
   * Runs a kernel. If the kernel computes in JavaScript, one event that runs it again replaces its
   * events.
   */
  run(kernel: tf.KernelConfig, params: Parameters<tf.KernelFunc>[0], isOpaque: boolean): ReturnType<tf.KernelFunc> {
    this.checkCreated();
    const given = Object.entries(params.inputs).filter((entry): entry is [string, tf.TensorInfo] => !!entry[1]);
    for (const [, info] of given) if (!this.#known.has(wasmTensorPlaceOf(this.#backend, info).id)) this.#keep(info);
    const start = this.events.length;
    const result = kernel.kernelFunc(params);
    this.checkCreated();
    const made = this.events.slice(start);
    const kinds = new Set(made.map(({ kind }) => kind));
    // Some kernels call the module and also write, such as Sum, which may copy its input.
    const isInModule = (['call', 'compute', 'kernel'] as const).some((kind) => kinds.has(kind)) && !kinds.has('write');
    const inputs = given.map(([name, info]) => [name, this.#recorded(info)] as const);
    if ((isInModule && !isOpaque) || inputs.length === 0 || CONSTANT.has(kernel.kernelName)) return result;
    const infos = [result].flat();
    const outputs = infos.map((info) => this.#recorded(info));
    const creations = made.filter((event) => event.kind === 'create' && outputs.some(({ id }) => id === event.id));
    // A kernel such as Reshape returns the memory of its input.
    if (creations.length === 0) return result;
    this.events.length = start;
    const all = Array.isArray(params.inputs) ? inputs.map(([, input]) => input) : Object.fromEntries(inputs);
    const event = { run: kernel.kernelFunc, inputs: all, attrs: params.attrs ?? {}, outputs };
    this.events.push(...creations, { kind: 'kernel', ...event });
    return result;
  }

  /** Keeps the values of a tensor that exists before the pass. Its owner may free it later. */
  #keep(info: tf.TensorInfo): void {
    const renamed = new RenumberedTensor(this.#backend, info);
    this.#renamed.push(renamed);
    this.#known.add(renamed.id);
    const { memoryOffset } = wasmTensorPlaceOf(this.#backend, info);
    const values = this.#backend.wasm.HEAPU8.slice(memoryOffset, memoryOffset + tensorByteLength(info));
    this.constants.push({ ...this.#recorded(info), values });
  }

  #recorded({ dataId, shape, dtype }: tf.TensorInfo): RecordedWasmTensor {
    return { id: wasmTensorPlaceOf(this.#backend, { dataId }).id, shape, dtype };
  }
}

/** A tensor that has a different number during a recording. */
export class RenumberedTensor {
  readonly id = newWasmTensorId();
  readonly #backend: WasmBackend;
  readonly #info: tf.TensorInfo;
  readonly #before: number;

  constructor(backend: WasmBackend, info: tf.TensorInfo) {
    this.#backend = backend;
    this.#info = info;
    const place = wasmTensorPlaceOf(backend, info);
    this.#before = place.id;
    place.id = this.id;
    backend.wasm.tfjs.registerTensor(this.id, tf.util.sizeFromShape(info.shape), place.memoryOffset);
  }

  restore(): void {
    const { dataIdMap, wasm } = this.#backend;
    // The pass may have disposed of the tensor.
    if (dataIdMap.has(this.#info.dataId)) wasmTensorPlaceOf(this.#backend, this.#info).id = this.#before;
    else wasm.tfjs.disposeData(this.#before);
    wasm.tfjs.disposeData(this.id);
  }
}

/** For each observed backend: its active recorder. */
const recorders = new WeakMap<WasmBackend, { active: WasmRecorder | null }>();

export function canRecordWasm(backend: WasmBackend): boolean {
  return recorders.has(backend);
}

/**
 * Runs `main` and records what kernels do. The backend must be observed.
 *
 * @param known the numbers of the pass's parameters and inputs. Other tensors that exist before it
 *   are constants.
 */
export function recordWasmPass<T>(
  backend: WasmBackend,
  known: Iterable<number>,
  main: (mark: (value: number) => void) => T,
): { result: T; events: readonly WasmEvent[]; constants: readonly RecordedConstant[] } {
  const slot = recorders.get(backend)!;
  const recorder = new WasmRecorder(backend, known);
  slot.active = recorder;
  try {
    const result = main((value) => recorder.add({ kind: 'mark', value }));
    recorder.checkCreated();
    return { result, events: recorder.events, constants: recorder.constants };
  } finally {
    slot.active = null;
    recorder.restore();
  }
}

/** A place in a tensor: the byte `at`. */
export interface TensorPointer {
  tensor: tf.TensorInfo;
  at: number;
}

/**
 * Calls a function of this project's module with numbers, and with the addresses of tensors and of
 * places in them. The call is recorded.
 */
export function callAndRecordWasm(
  backend: WasmBackend,
  run: (...args: number[]) => void,
  args: readonly (number | tf.TensorInfo | TensorPointer)[],
): void {
  const places = args.map((arg) => {
    if (typeof arg === 'number') return arg;
    const { tensor, at } = 'tensor' in arg ? arg : { tensor: arg, at: 0 };
    return { ...wasmTensorPlaceOf(backend, tensor), at };
  });
  const numbered = places.map((one) => (typeof one === 'number' ? one : { id: one.id, at: one.at }));
  recorders.get(backend)?.active?.add({ kind: 'compute', run, args: numbered });
  run(...places.map((one) => (typeof one === 'number' ? one : one.memoryOffset + one.at)));
}

/**
 * Prepares a backend for {@link recordWasmPass}. Replaces functions of its module, and its kernels
 * in TensorFlow.js's registry. Kernels that are registered later make passes eager. Idempotent.
 *
 * @param opaque names of kernels that compute in JavaScript and also call other kernels.
 */
export function observeWasmKernels(backend: WasmBackend, opaque: ReadonlySet<string>): void {
  if (recorders.has(backend)) return;
  const slot: { active: WasmRecorder | null } = { active: null };
  recorders.set(backend, slot);
  observeMemory(backend, slot);
  observeFunctions(backend, slot);
  for (const kernel of tf.getKernelsForBackend('wasm')) {
    const isOpaque = opaque.has(kernel.kernelName);
    tf.unregisterKernel(kernel.kernelName, 'wasm');
    tf.registerKernel({
      ...kernel,
      kernelFunc: (params) =>
        slot.active && params.backend === backend
          ? slot.active.run(kernel, params, isOpaque)
          : kernel.kernelFunc(params),
    });
  }
}

function observeMemory(backend: WasmBackend, slot: { active: WasmRecorder | null }): void {
  const { wasm } = backend;
  const { tfjs } = wasm;
  // The first call of a function of the module replaces the function.
  freeWasmMemory(backend, allocateWasmMemory(backend, 1));
  let allocated = { offset: 0, bytes: 0 };
  const malloc = wasm[ALLOCATE];
  wasm[ALLOCATE] = (bytes) => {
    allocated = { offset: malloc(bytes) >>> 0, bytes };
    return allocated.offset;
  };
  const registerTensor = tfjs.registerTensor.bind(tfjs);
  tfjs.registerTensor = (id, size, offset) => {
    registerTensor(id, size, offset);
    if (isOwnWasmTensorId(id)) return;
    const bytes = allocated.offset === offset ? allocated.bytes : 0;
    slot.active?.create(id, size, offset, bytes);
  };
  const disposeData = tfjs.disposeData.bind(tfjs);
  tfjs.disposeData = (id) => {
    disposeData(id);
    if (!isOwnWasmTensorId(id)) slot.active?.add({ kind: 'free', id });
    else slot.active?.freed(id);
  };
}

/**
 * Kernels get their functions of the module from `cwrap` when they are set up: now, and when
 * TensorFlow.js makes the backend the current one again.
 */
function observeFunctions(backend: WasmBackend, slot: { active: WasmRecorder | null }): void {
  const { wasm } = backend;
  const { cwrap } = wasm;
  wasm.cwrap = (...signature) => {
    const run = cwrap(...signature) as ModuleFunction;
    return (...args: WasmArgument[]) => {
      slot.active?.add({ kind: 'call', run, args });
      return run(...args);
    };
  };
  for (const kernel of tf.getKernelsForBackend('wasm')) kernel.setupFunc?.(backend);
}
