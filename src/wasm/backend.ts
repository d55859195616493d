/**
 * Access to TensorFlow.js's WebAssembly backend and its module. test/wasm/passCaptures.test.ts
 * checks that members which TensorFlow.js does not document work as described here.
 */
import * as tf from '@tensorflow/tfjs';
import type { BackendWasm } from '@tensorflow/tfjs-backend-wasm';

export type WasmBackend = BackendWasm & {
  /** `cwrap` returns a function of the module. An `array` is a Uint8Array. */
  wasm: {
    cwrap: (name: string, result: null, types: readonly ('number' | 'array')[]) => unknown;
    /** TensorFlow.js's module with threads does not export its memory. */
    asm: { memory?: WebAssembly.Memory };
  };
};

/**
 * Returns the WebAssembly backend; `null` if TensorFlow.js's current backend is a different one.
 */
export function wasmBackend(): WasmBackend | null {
  return tf.getBackend() === 'wasm' ? (tf.backend() as WasmBackend) : null;
}

/** Reserves memory of the module. Returns its offset, or 0 if there is not enough memory. */
export function allocateWasmMemory({ wasm }: WasmBackend, bytes: number): number {
  return wasm[ALLOCATE](bytes) >>> 0;
}

export function freeWasmMemory({ wasm }: WasmBackend, offset: number): void {
  wasm[FREE](offset);
}

/** Names of the module's functions. */
export const [ALLOCATE, FREE] = ['_malloc', '_free'] as const;

/** Where a tensor's values are. The module's functions receive the number `id`. */
export interface WasmTensorPlace {
  id: number;
  /** Offset in bytes. */
  memoryOffset: number;
}

/** Returns TensorFlow.js's own record of a tensor. */
export function wasmTensorPlaceOf(backend: WasmBackend, { dataId }: Pick<tf.TensorInfo, 'dataId'>): WasmTensorPlace {
  return backend.dataIdMap.get(dataId);
}

const ELEMENT_BYTES: Readonly<Record<string, number>> = { float32: 4, int32: 4, bool: 1 };

export function tensorByteLength({ shape, dtype }: Pick<tf.TensorInfo, 'shape' | 'dtype'>): number {
  return tf.util.sizeFromShape(shape) * ELEMENT_BYTES[dtype]!;
}

/** TensorFlow.js numbers tensors from 1. This project's numbers begin here. */
const FIRST_OWN = 2 ** 30;
let nextId = FIRST_OWN;

export function newWasmTensorId(): number {
  return nextId++;
}

/** Returns whether a number is from {@link newWasmTensorId}. */
export function isOwnWasmTensorId(id: number): boolean {
  return id >= FIRST_OWN;
}

/**
 * Tells the module that values of a tensor have changed in place. XNNPACK keeps copies of matrices,
 * in a different order, under the tensor's number.
 */
export function forgetTensorCopies({ wasm }: WasmBackend, { id, memoryOffset }: WasmTensorPlace, size: number): void {
  wasm.tfjs.disposeData(id);
  wasm.tfjs.registerTensor(id, size, memoryOffset);
}
