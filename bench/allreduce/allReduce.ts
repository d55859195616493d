/** Runs in a rank's worker: consecutive all-reduces, and the time of each. */
import type { WorkerRank } from '../world/rank.ts';

interface AllReduceArgs {
  bytes: number;
  /** Number of all-reduces, after a barrier. */
  ops: number;
  /**
   * Whether the sum replaces the tensor; otherwise each op sums a new copy, and its time includes
   * the copy.
   */
  isInPlace: boolean;
}

interface AllReduceResult {
  /** Milliseconds of each op, from the end of the one before. */
  ms: number[];
  /** Number of wrong elements in the last result. */
  wrong: number;
  /** Bytes of the frames sent in one op, headers included. */
  bytesSent: number;
}

/** Period of the values: a prime, so that no chunk or segment starts like another. */
const PERIOD = 17;

export async function allReduce({ group }: WorkerRank, args: AllReduceArgs): Promise<AllReduceResult> {
  const { bytes, ops, isInPlace } = args;
  const { rank, worldSize } = group;
  // Whole numbers have exact sums. In-place sums grow with each op by the world size, which is
  // exact for powers of two.
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
