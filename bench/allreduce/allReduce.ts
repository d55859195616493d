/** Runs consecutive all-reduces on all ranks, and measures the time of each. */
import { dtypeOf } from '../../src/collectives/dtypes.ts';
import { reduceFunctionFor } from '../../src/collectives/reduce.ts';
import { ReduceOp } from '../../src/protocol/frame.ts';
import { median } from '../../src/util/statistics.ts';
import { neighboursOf, push, type Share } from '../world/push.ts';
import type { PageRank, WorkerRank } from '../world/rank.ts';

interface AllReduceArgs {
  /** Bytes of the whole tensor. */
  bytes: number;
  /** Number of all-reduces. All ranks synchronize before the first. */
  ops: number;
}

export interface AllReduceResult {
  /** Milliseconds of each all-reduce. */
  ms: number[];
  /** Number of wrong elements in the first result. */
  wrong: number;
  /** Bytes that this rank sends in one all-reduce, headers included. */
  bytesSent: number;
}

/** Period of the values. It is a prime, so that chunks and segments begin with different values. */
const PERIOD = 17;

/** Runs in a rank's worker: all-reduces of the process group. */
export async function allReduce({ group }: WorkerRank, { bytes, ops }: AllReduceArgs): Promise<AllReduceResult> {
  const { rank, worldSize } = group;
  const tensor = new Float32Array(bytes / Float32Array.BYTES_PER_ELEMENT);
  for (let i = 0; i < tensor.length; i++) tensor[i] = (i % PERIOD) + rank;
  await group.barrier();
  const sentBefore = group.bytesSent;
  const operate = () => group.allReduce(tensor);
  const first = await timesOf(1, operate);
  // Only the first sums are known exactly: each all-reduce multiplies them by the world size.
  const rankSum = (worldSize * (worldSize - 1)) / 2;
  const wrong = tensor.filter((value, i) => value !== worldSize * (i % PERIOD) + rankSum).length;
  const ms = [...first, ...(await timesOf(ops - 1, operate))];
  return { ms, wrong, bytesSent: (group.bytesSent - sentBefore) / ops };
}

/**
 * Runs on a rank's page: sends as many bytes as an all-reduce around the same ring, but over bare
 * data channels, without sums and frames. In each of 2(n-1) steps, every rank sends a chunk to its
 * right neighbour. Messages are forwarded as soon as they arrive.
 */
export async function bareRing(page: PageRank, { bytes, ops }: AllReduceArgs): Promise<{ ms: number[] }> {
  const { worldSize } = page;
  const [left, right] = await neighboursOf(page);
  // This exchange of single bytes makes all ranks start at the same time.
  await push(left, right, shareOf(worldSize, 1));
  return { ms: await timesOf(ops, () => push(left, right, shareOf(worldSize, Math.ceil(bytes / worldSize)))) };
}

/**
 * Returns what a rank sends, receives and forwards in one all-reduce. The chunk of the last step is
 * not forwarded.
 */
function shareOf(worldSize: number, chunkBytes: number): Share {
  const expected = 2 * (worldSize - 1) * chunkBytes;
  return { own: chunkBytes, expected, passedOn: expected - chunkBytes };
}

async function timesOf(ops: number, operate: () => PromiseLike<unknown>): Promise<number[]> {
  const ms: number[] = [];
  let last = performance.now();
  for (let op = 0; op < ops; op++) {
    await operate();
    const now = performance.now();
    ms.push(now - last);
    last = now;
  }
  return ms;
}

/**
 * Number of elements in a frame, and of frames in a measurement. One frame is too fast to measure,
 * because the browser's clock has steps of 0.1 ms.
 */
const ELEMENTS = 16_000;
const FRAMES = 200;
const REPEATS = 9;

/**
 * Runs in a rank's worker: measures the milliseconds per byte that a rank needs to add a received
 * chunk to its own.
 */
export async function combine(_rank: WorkerRank, _args: null): Promise<number> {
  const own = new Float32Array(ELEMENTS).fill(1);
  const add = reduceFunctionFor(dtypeOf(own), ReduceOp.SUM);
  const times = Array.from({ length: REPEATS }, () => {
    const values = new Float32Array(ELEMENTS);
    const began = performance.now();
    for (let frame = 0; frame < FRAMES; frame++) add(values, own, 0);
    return performance.now() - began;
  });
  return median(times) / (FRAMES * own.byteLength);
}
