/** In a rank's worker: all-reduces one right behind the other, and how long each took. */
import type { WorkerRank } from '../world/rank.ts';

interface AllReduceArgs {
  bytes: number;
  /** All-reduces, after ranks have met. */
  ops: number;
  /** Out of place: sums a copy, whose making counts. */
  isInPlace: boolean;
}

interface AllReduceResult {
  /** Milliseconds of each op, from the end of the one before. */
  ms: number[];
  /** Elements of the last result that are wrong. */
  wrong: number;
  /** Bytes of frames sent, headers included, of one op. */
  bytesSent: number;
}

/** Values repeat after so many: a prime, so that no chunk or segment begins like another. */
const PERIOD = 17;

export async function allReduce({ group }: WorkerRank, args: AllReduceArgs): Promise<AllReduceResult> {
  const { bytes, ops, isInPlace } = args;
  const { rank, worldSize } = group;
  // Whole numbers, so that sums are exact. In place they grow with each op by the world size, which
  // is exact as far as it is a power of two.
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
