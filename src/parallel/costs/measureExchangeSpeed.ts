/** Measures how fast the ranks of a group exchange values. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { Clock } from '../../util/clock.ts';
import { median } from '../../util/statistics.ts';

/** How fast ranks exchange values; the same figures on all ranks. */
export interface ExchangeSpeed {
  /** Milliseconds of an all-reduce of one value per rank. It has 2(n-1) hops with n ranks. */
  latencyMs: number;
  /** Bytes that a rank sends per millisecond in a large all-reduce. */
  bytesPerMs: number;
}

/**
 * Numbers of small and of large all-reduces that are timed. Their median time counts, because lost
 * packets make some of them slow.
 */
const SMALL = 5;
const LARGE = 3;
/**
 * Number of values in the largest all-reduce. These values take 1 MiB, which needs 2.5 seconds over
 * a line of 5 Mbit/s.
 */
const MOST_VALUES = 2 ** 18;

/**
 * Every rank must call it. The large all-reduces have as many values as the model, up to 1 MiB.
 *
 * @param size number of parameters of the model.
 */
export async function measureExchangeSpeed(group: ProcessGroup, size: number, clock: Clock): Promise<ExchangeSpeed> {
  const { worldSize } = group;
  if (worldSize === 1) return { latencyMs: 0, bytesPerMs: Infinity };
  const values = new Float32Array(Math.max(worldSize, Math.min(size, MOST_VALUES)));
  const typical = async (count: number, elements: number): Promise<number> => {
    const times: number[] = [];
    for (let i = 0; i < count; i++) {
      const startedAt = clock.now();
      await group.allReduce(values.subarray(0, elements), { algorithm: 'ring' });
      times.push(clock.now() - startedAt);
    }
    return median(times);
  };
  // A small all-reduce has one value per rank. With fewer values, some ranks would send nothing.
  const latency = await typical(SMALL, worldSize);
  const large = await typical(LARGE, values.length);
  const all = await group.allGather(Float64Array.of(latency, large));
  // A rank that waits for another rank also measures this wait. So the shortest time of all ranks
  // is used.
  const [latencyMs, largeMs] = [0, 1].map((i) => Math.min(...all.map((times) => times[i]!)));
  const sent = (2 * (worldSize - 1) * values.byteLength) / worldSize;
  // A transfer inside one browser may be too short for the clock, so it counts as at least 0.1 ms.
  return { latencyMs: latencyMs!, bytesPerMs: sent / Math.max(largeMs! - latencyMs!, 0.1) };
}
