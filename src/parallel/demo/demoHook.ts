/**
 * DeMo: ranks exchange the fast components of their momentum. Each rank adds its gradient to a
 * momentum of its own. It transforms the momentum by a discrete cosine transform of squares of 64 x
 * 64 values, and sends index and sign of the largest coefficients. What it has sent is subtracted
 * from the momentum. All ranks add up the signs of all ranks in rank order, transform the sums
 * back, and take the signs: these are the gradient that the optimizer applies. So the learning rate
 * is the change of each parameter in a step, as with signSGD.
 *
 * Peng, Quesnelle, Kingma: "DeMo: Decoupled Momentum Optimization" (2024,
 * https://arxiv.org/abs/2411.19870), algorithm 1. Here squares are 4096 consecutive values of a
 * parameter, and the last square is filled with zeros.
 */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { CommHook, GradBucket } from '../ddp/commHooks.ts';
import { BitReader, BitWriter } from '../sparse/bits.ts';
import { CHUNK, chunksOf, lowBitsOf, readEntries, writeEntries, type ChunkEntries } from '../sparse/chunks.ts';
import { largestEntries } from '../sparse/largest.ts';
import { sizeOf } from '../../util/shape.ts';
import { invert, transform } from './dct.ts';

/** Coefficients of a square that are sent, and decay of the momentum: values of the paper. */
const ENTRIES = 32;
const DECAY = 0.999;

/** Returns about how many bytes a rank sends to each other rank for parameters of these sizes. */
export function demoBytes(sizes: readonly number[]): number {
  const bits = sizes.flatMap((size) => squaresOf(size)).map(({ count, lowBits }) => count * (lowBits + 2.5));
  return Math.ceil(bits.reduce((sum, part) => sum + part, 0) / 8);
}

/**
 * Creates the hook of one model. The momentum is not part of a replica's state: ranks with
 * different momentum still receive the same signs.
 */
export function createDemoHook(): CommHook {
  /** Momentum of this rank, by parameter. */
  let momenta = new Map<number, Float32Array>();
  /** Momentum after the latest step, which counts once that step is applied. */
  let staged = new Map<number, Float32Array>();
  let isWhole = false;

  async function hook(bucket: GradBucket, group: ProcessGroup): Promise<void> {
    if (bucket.index === 0) {
      if (isWhole && !bucket.isRetry) momenta = new Map([...momenta, ...staged]);
      staged = new Map();
      isWhole = false;
    }
    const used = bucket.parameters.filter(({ isUsed }) => isUsed);
    const bits = new BitWriter();
    for (const { index, offset, shape } of used) {
      const gradient = bucket.buffer.subarray(offset, offset + sizeOf(shape));
      const momentum = momentumOf(gradient, momenta.get(index));
      sendLargest(momentum, bits);
      staged.set(index, momentum);
    }
    const sent = await group.allGatherObject(bits.bytes);
    const readers = sent.map((bytes) => new BitReader(bytes));
    for (const { offset, shape } of used) {
      addSigns(bucket.buffer.subarray(offset, offset + sizeOf(shape)), readers);
    }
    isWhole = bucket.isLast;
  }

  const reset = (): void => {
    momenta.clear();
    staged.clear();
  };
  return Object.assign(hook, { reset });
}

/** Returns a new momentum. An infinite value in one step must not spoil all later steps. */
function momentumOf(gradient: Float32Array, before: Float32Array | undefined): Float32Array {
  const momentum = gradient.map((value, i) => DECAY * (before?.[i] ?? 0) + value);
  return momentum.every((value) => value - value === 0) ? momentum : new Float32Array(gradient.length);
}

/** Writes the largest coefficients of a momentum, and subtracts them from it. */
function sendLargest(momentum: Float32Array, bits: BitWriter): void {
  for (const { start, length, count, lowBits } of squaresOf(momentum.length)) {
    const values = momentum.subarray(start, start + length);
    const square = new Float64Array(CHUNK);
    square.set(values);
    transform(square);
    const largest = largestEntries(Float32Array.from(square), count);
    const sent = new Float64Array(CHUNK);
    writeEntries(bits, largest, lowBits, (index) => {
      bits.write(square[index]! < 0 ? 1 : 0, 1);
      sent[index] = square[index]!;
    });
    invert(sent);
    for (let i = 0; i < length; i++) values[i]! -= sent[i]!;
  }
}

/** Replaces `gradient` by the signs that the ranks have sent together. */
function addSigns(gradient: Float32Array, readers: readonly BitReader[]): void {
  for (const chunk of squaresOf(gradient.length)) {
    const sums = new Float64Array(CHUNK);
    for (const bits of readers) {
      readEntries(bits, { ...chunk, length: CHUNK }, (index) => (sums[index]! += bits.read(1) === 1 ? -1 : 1));
    }
    invert(sums);
    for (let i = 0; i < chunk.length; i++) gradient[chunk.start + i] = Math.sign(sums[i]!);
  }
}

/** A square has coefficients of all frequencies, also if it has fewer values. */
function squaresOf(length: number): ChunkEntries[] {
  return chunksOf(length, ENTRIES).map((chunk) => ({ ...chunk, lowBits: lowBitsOf(CHUNK / chunk.count) }));
}
