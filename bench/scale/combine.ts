/**
 * Runs in a rank's worker: measures the milliseconds per byte that a rank needs to add a received
 * chunk to its own.
 */
import { dtypeOf } from '../../src/collectives/dtypes.ts';
import { reducerFor } from '../../src/collectives/reduce.ts';
import { ReduceOp } from '../../src/protocol/frame.ts';
import { median } from '../../src/util/statistics.ts';
import type { WorkerRank } from '../world/rank.ts';

/**
 * Number of elements in a frame, and of frames in a measurement. One frame is too fast to measure,
 * because the browser's clock has steps of 0.1 ms.
 */
const ELEMENTS = 16_000;
const FRAMES = 200;
const REPEATS = 9;

export async function combine(_rank: WorkerRank, _args: null): Promise<number> {
  const own = new Float32Array(ELEMENTS).fill(1);
  const add = reducerFor(dtypeOf(own), ReduceOp.SUM);
  const times = Array.from({ length: REPEATS }, () => {
    const values = new Float32Array(ELEMENTS);
    const began = performance.now();
    for (let frame = 0; frame < FRAMES; frame++) add(values, own, 0);
    return performance.now() - began;
  });
  return median(times) / (FRAMES * own.byteLength);
}
