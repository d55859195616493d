/**
 * DeMo: ranks exchange the strongest frequencies of their momentum. Each rank adds its gradient to
 * a momentum of its own, which it keeps as coefficients of a discrete cosine transform of squares
 * of 64 x 64 values. It sends the largest coefficients of each square (`sparsePayload.ts`), and
 * subtracts exactly what it has sent. All ranks add up the coefficients of all ranks in rank order,
 * transform the sums back, and take the signs: these are the gradient that the optimizer applies.
 * So with plain SGD the learning rate is the change of each parameter in a step, as with signSGD.
 *
 * Peng, Quesnelle, Kingma: "DeMo: Decoupled Momentum Optimization" (2024,
 * https://arxiv.org/abs/2411.19870), algorithm 1. Here squares are 4096 consecutive values of a
 * parameter, the last square is filled with zeros, and coefficients are sent with two bits.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { sizeOf } from '../../util/shape.ts';
import type { CommHook, GradBucket } from '../ddp/commHooks.ts';
import { CHUNK, lowBitsOf } from '../sparse/chunks.ts';
import { gatherPayloads } from '../sparse/gatherPayloads.ts';
import { decodeLargest, encodeLargest, MEANS_BYTES } from '../sparse/sparsePayload.ts';
import { invert, transform } from './dct.ts';

/** Coefficients of a square that are sent, and decay of the momentum: values of the paper. */
const ENTRIES = 32;
const DECAY = 0.999;
/** Bits of a coefficient, and about the bits of the unary part of its index. */
const ENTRY_BITS = 2 + 1.5;

/** Returns about how many bytes a rank sends to each other rank for parameters of these sizes. */
export function demoBytes(sizes: readonly number[]): number {
  const squares = sizes.reduce((sum, size) => sum + Math.ceil(size / CHUNK), 0);
  return Math.ceil(squares * (MEANS_BYTES + (ENTRIES * (lowBitsOf(CHUNK / ENTRIES) + ENTRY_BITS)) / 8));
}

/** The squares of a parameter. */
interface Squares {
  parameter: number;
  /** The parameter's elements in the bucket, and in the coefficients of all squares. */
  start: number;
  size: number;
  first: number;
  end: number;
}

/**
 * Creates the hook of one model. Momentum is not part of a replica's state: ranks with different
 * momentum still receive the same signs.
 */
export function createDemoHook(): CommHook {
  /** This rank's momentum, by parameter. */
  const momenta = new Map<number, Float32Array>();
  /** Momentum after the latest step, which counts once that step is applied. */
  const staged = new Map<number, Float32Array>();
  let isWhole = false;

  async function hook(bucket: GradBucket, group: ProcessGroup): Promise<void> {
    if (bucket.index === 0) {
      if (isWhole && !bucket.isRetry) for (const [parameter, momentum] of staged) momenta.set(parameter, momentum);
      staged.clear();
      isWhole = false;
    }
    const squares = squaresOf(bucket);
    const coefficients = new Float32Array(squares.at(-1)?.end ?? 0);
    for (const { parameter, start, size, first, end } of squares) {
      const momentum = coefficients.subarray(first, end);
      addMomentum(bucket.buffer.subarray(start, start + size), momenta.get(parameter), momentum);
    }
    const payload = encodeLargest(coefficients, ENTRIES);
    for (const { parameter, first, end } of squares) staged.set(parameter, coefficients.slice(first, end));
    const sums = new Float32Array(coefficients.length);
    for (const sent of await gatherPayloads(group, { weight: 1, payload })) {
      const values = decodeLargest(sent.payload, sums.length, ENTRIES);
      for (let i = 0; i < sums.length; i++) sums[i]! += values[i]!;
    }
    for (const { start, size, first, end } of squares) {
      takeSigns(sums.subarray(first, end), bucket.buffer.subarray(start, start + size));
    }
    if (bucket.isLast) isWhole = true;
  }

  const reset = (): void => {
    momenta.clear();
    staged.clear();
  };
  return Object.assign(hook, { reset });
}

/** Returns the squares of the parameters that any rank has used. */
function squaresOf({ parameters }: GradBucket): Squares[] {
  let first = 0;
  return parameters
    .filter(({ isUsed }) => isUsed)
    .map(({ index, offset, shape }) => {
      const size = sizeOf(shape);
      const squares = { parameter: index, start: offset, size, first, end: first + Math.ceil(size / CHUNK) * CHUNK };
      first = squares.end;
      return squares;
    });
}

/** Computes the coefficients of the next momentum. */
function addMomentum(gradient: Float32Array, before: Float32Array | undefined, momentum: Float32Array): void {
  const square = new Float64Array(CHUNK);
  for (let start = 0; start < momentum.length; start += CHUNK) {
    square.fill(0);
    square.set(gradient.subarray(start, start + CHUNK));
    transform(square);
    for (let i = 0; i < CHUNK; i++) momentum[start + i] = DECAY * (before?.[start + i] ?? 0) + square[i]!;
  }
  // An infinite value in one step must not spoil all later steps.
  if (!momentum.every((value) => value - value === 0)) momentum.fill(0);
}

/** Writes the signs of the values with these coefficients. */
function takeSigns(coefficients: Float32Array, signs: Float32Array): void {
  for (let start = 0; start < coefficients.length; start += CHUNK) {
    const square = Float64Array.from(coefficients.subarray(start, start + CHUNK));
    invert(square);
    for (let i = start; i < Math.min(signs.length, start + CHUNK); i++) signs[i] = Math.sign(square[i - start]!);
  }
}
