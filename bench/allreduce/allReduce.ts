/** Runs consecutive all-reduces in a rank's worker, and measures the time of each. */
import type { WorkerRank } from '../world/rank.ts';

interface AllReduceArgs {
  bytes: number;
  /** Number of all-reduces. A barrier comes first. */
  ops: number;
  /**
   * Whether the sum replaces the tensor. Otherwise each all-reduce uses a new copy of the input,
   * and its time includes the copying.
   */
  isInPlace: boolean;
}

interface AllReduceResult {
  /** Milliseconds of each all-reduce, measured from the end of the previous all-reduce. */
  ms: number[];
  /** Number of wrong elements in the last result. */
  wrong: number;
  /** Bytes that this rank sends in one all-reduce, headers included. */
  bytesSent: number;
}

/** Period of the values. It is a prime, so that chunks and segments begin with different values. */
const PERIOD = 17;

export async function allReduce({ group }: WorkerRank, args: AllReduceArgs): Promise<AllReduceResult> {
  const { bytes, ops, isInPlace } = args;
  const { rank, worldSize } = group;
  // Sums of integers are exact. In-place sums grow by a factor of the world size with each
  // all-reduce, which is exact for powers of two.
  const input = new Float32Array(bytes / Float32Array.BYTES_PER_ELEMENT);
  for (let i = 0; i < input.length; i++) input[i] = (i % PERIOD) + rank;
  let output = input;
  const ms: number[] = [];
  await group.barrier();
  const sentBefore = group.bytesSent;
  let last = performance.now();
  for (let op = 0; op < ops; op++) {
    if (!isInPlace) output = input.slice();
    await group.allReduce(output);
    const now = performance.now();
    ms.push(now - last);
    last = now;
  }
  const bytesSent = (group.bytesSent - sentBefore) / ops;
  const rankSum = (worldSize * (worldSize - 1)) / 2;
  const growth = isInPlace ? worldSize ** (ops - 1) : 1;
  let wrong = 0;
  for (let i = 0; i < output.length; i++) {
    if (output[i] !== (worldSize * (i % PERIOD) + rankSum) * growth) wrong += 1;
  }
  return { ms, wrong, bytesSent };
}
