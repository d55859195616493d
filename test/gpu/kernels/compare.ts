/** Compares ops with this project's kernels with the CPU backend of TensorFlow.js. */
import * as tf from '@tensorflow/tfjs';
import { expect } from 'vitest';
import { createRng, type Rng } from '../../../src/util/rng.ts';

export interface Input {
  shape: number[];
  values: Float32Array | Int32Array;
}

/** An op of float32 and int32 tensors. It is differentiated by all float32 tensors. */
export type Op = (...inputs: tf.Tensor[]) => tf.Tensor;

/** A backend with kernels of this project. The functions leave it as the current one. */
type OwnBackend = 'webgpu' | 'wasm';

const sizeOf = (shape: readonly number[]): number => shape.reduce((product, side) => product * side, 1);

/** Returns float32 values between -1 and 1. */
export function uniform(rng: Rng, ...shape: number[]): Input {
  return { shape, values: Float32Array.from({ length: sizeOf(shape) }, () => 2 * rng.next() - 1) };
}

/** Returns int32 values from 0 to `below` - 1. */
export function integers(rng: Rng, below: number, ...shape: number[]): Input {
  return { shape, values: Int32Array.from({ length: sizeOf(shape) }, () => rng.below(below)) };
}

/**
 * Checks that the op's result and all its gradients equal those of the CPU backend.
 *
 * @param tolerance largest difference, divided by the largest absolute value of the tensor.
 */
export async function expectEqualsCpu(
  op: Op,
  inputs: readonly Input[],
  tolerance = 1e-5,
  backend: OwnBackend = 'webgpu',
): Promise<void> {
  const own = await valueAndGradients(op, inputs, backend);
  const onCpu = await valueAndGradients(op, inputs, 'cpu');
  await tf.setBackend(backend);
  expect(own.map(({ length }) => length)).toEqual(onCpu.map(({ length }) => length));
  for (const [i, expected] of onCpu.entries()) {
    expect(relativeDifference(own[i]!, expected), i === 0 ? 'the value' : `gradient ${i - 1}`).toBeLessThan(tolerance);
  }
}

/** Checks that the op's result and gradients have the same bits in `runs` runs. */
export async function expectEqualBits(op: Op, inputs: readonly Input[], runs = 20): Promise<void> {
  const first = await valueAndGradients(op, inputs, 'webgpu');
  for (let run = 1; run < runs; run++) {
    const next = await valueAndGradients(op, inputs, 'webgpu');
    for (const [i, values] of first.entries()) expect(bitsOf(next[i]!)).toEqual(bitsOf(values));
  }
}

/**
 * Checks each gradient in a random direction d: the derivative of sum(op * dy) along d, which is
 * (f(x + h d) - f(x - h d)) / 2h.
 */
export async function expectFiniteDifferences(op: Op, inputs: readonly Input[], tolerance = 2e-2): Promise<void> {
  const step = 1e-2;
  const [value, ...gradients] = await valueAndGradients(op, inputs, 'webgpu');
  const dy = upstream(value!.length);
  let gradient = 0;
  for (const [i, input] of inputs.entries()) {
    if (input.values instanceof Int32Array) continue;
    const rng = createRng(100 + i);
    const direction = Float32Array.from(input.values, () => 2 * rng.next() - 1);
    const lossAt = async (distance: number): Promise<number> => {
      const moved = { ...input, values: input.values.map((v, at) => v + distance * direction[at]!) as Float32Array };
      const [result] = await valueAndGradients(op, inputs.with(i, moved), 'webgpu');
      return result!.reduce((sum, v, at) => sum + v * dy[at]!, 0);
    };
    const measured = ((await lossAt(step)) - (await lossAt(-step))) / (2 * step);
    const own = gradients[gradient++]!;
    const computed = own.reduce((sum, v, at) => sum + v * direction[at]!, 0);
    const scale = Math.hypot(...own) + 1e-3;
    expect(Math.abs(measured - computed) / scale, `input ${i}`).toBeLessThan(tolerance);
  }
}

/** The op's result, then its gradient by each float32 input for a fixed gradient of the result. */
export async function valueAndGradients(
  op: Op,
  inputs: readonly Input[],
  backend: OwnBackend | 'cpu',
): Promise<Float32Array[]> {
  await tf.setBackend(backend);
  const before = tf.memory().numTensors;
  const tensors = inputs.map(({ shape, values }) =>
    tf.tensor(values.slice(), shape, values instanceof Int32Array ? 'int32' : 'float32'),
  );
  const floats = tensors.filter(({ dtype }) => dtype === 'float32');
  const compute = (...xs: tf.Tensor[]): tf.Tensor => {
    let next = 0;
    return op(...tensors.map((tensor) => (tensor.dtype === 'float32' ? xs[next++]! : tensor)));
  };
  const all = tf.tidy(() => {
    const value = compute(...floats);
    const dy = tf.tensor(upstream(value.size), value.shape);
    return [value, ...tf.grads(compute)(floats, dy)];
  });
  const values = await Promise.all(all.map((tensor) => tensor.data<'float32'>()));
  tf.dispose([tensors, all]);
  expect(tf.memory().numTensors).toBe(before);
  return values.map((array) => array.slice());
}

function upstream(size: number): Float32Array {
  const rng = createRng(7);
  return Float32Array.from({ length: size }, () => 2 * rng.next() - 1);
}

function relativeDifference(actual: Float32Array, expected: Float32Array): number {
  let largest = 0;
  let difference = 0;
  for (const [i, value] of expected.entries()) {
    largest = Math.max(largest, Math.abs(value));
    const distance = Math.abs(actual[i]! - value);
    difference = Math.max(difference, Number.isNaN(distance) ? Infinity : distance);
  }
  return difference / (largest || 1);
}

export function bitsOf({ buffer, byteOffset, length }: Float32Array): Uint32Array {
  return new Uint32Array(buffer, byteOffset, length);
}
