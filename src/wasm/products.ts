/** Products of batches of matrices. */
import type * as tf from '@tensorflow/tfjs';
import type { WasmBackend } from './backend.ts';
import { freePart, partOf } from './recording.ts';

type Multiply = (ids: readonly [number, number, number], shapes: readonly [Uint8Array, Uint8Array]) => void;

const functions = new WeakMap<WasmBackend, Multiply>();

/** The arguments of the module's function BatchMatMul. */
const SIGNATURE = ['number', 'array', 'number', 'number', 'array', 'number', 'number', 'number', 'number'] as const;

function multiplyOf(backend: WasmBackend): Multiply {
  const known = functions.get(backend);
  if (known) return known;
  const run = backend.wasm.cwrap('BatchMatMul', null, SIGNATURE) as (...args: unknown[]) => void;
  const multiply: Multiply = ([a, b, result], [shapeA, shapeB]) => run(a, shapeA, 3, b, shapeB, 3, 0, 0, result);
  functions.set(backend, multiply);
  return multiply;
}

/**
 * Multiplies the matrices of two batches one after the other, because XNNPACK multiplies only
 * single matrices: float32 [.., rows, inner] by [.., inner, columns] -> [.., rows, columns]. The
 * batches have equal shapes. XNNPACK keeps no copy of a matrix after the call.
 */
export function multiplyEach(backend: WasmBackend, a: tf.TensorInfo, b: tf.TensorInfo): tf.TensorInfo {
  const [rows, inner] = a.shape.slice(-2) as [number, number];
  const columns = b.shape.at(-1)!;
  const result = backend.makeOutput([...a.shape.slice(0, -2), rows, columns], 'float32');
  const multiply = multiplyOf(backend);
  const shapes = [shapeBytes([1, rows, inner]), shapeBytes([1, inner, columns])] as const;
  const batches = a.shape.slice(0, -2).reduce((product, side) => product * side, 1);
  for (let i = 0; i < batches; i++) {
    const parts = [
      partOf(backend, a, i * rows * inner, rows * inner),
      partOf(backend, b, i * inner * columns, inner * columns),
      partOf(backend, result, i * rows * columns, rows * columns),
    ] as const;
    multiply(parts, shapes);
    for (const part of parts) freePart(backend, part);
  }
  return result;
}

function shapeBytes(shape: readonly number[]): Uint8Array {
  return new Uint8Array(Int32Array.from(shape).buffer);
}
