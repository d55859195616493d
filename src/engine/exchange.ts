/** Numbers that ranks tell each other beside training: statistics, counts. All go as float32, large integers in two parts. */
import type { ProcessGroup } from '../collectives/processGroup.ts';
import type { RankStatistics } from '../protocol/events.ts';

/** Integers below this are exact in float32. */
const LOW_PART = 2 ** 24;

function split(integer: number): [high: number, low: number] {
  return [Math.floor(integer / LOW_PART), integer % LOW_PART];
}

function join(high: number, low: number): number {
  return high * LOW_PART + low;
}

/** Every rank's statistics, in rank order. */
export async function exchangeStatistics(
  group: ProcessGroup,
  mine: Omit<RankStatistics, 'rank'>,
): Promise<RankStatistics[]> {
  const rows = await group.allGather(
    Float32Array.of(
      mine.computeMs,
      mine.communicateMs,
      mine.stepMs,
      ...split(mine.gradientBytesSent),
      ...split(mine.otherBytesSent),
    ),
  );
  return rows.map(([computeMs, communicateMs, stepMs, gradientHigh, gradientLow, otherHigh, otherLow], rank) => ({
    rank,
    computeMs: computeMs!,
    communicateMs: communicateMs!,
    stepMs: stepMs!,
    gradientBytesSent: join(gradientHigh!, gradientLow!),
    otherBytesSent: join(otherHigh!, otherLow!),
  }));
}

/** Sums counts (below 2^24 in total) over all ranks. */
export async function sumCounts(group: ProcessGroup, counts: readonly number[]): Promise<number[]> {
  return Array.from(await group.allReduce(Float32Array.from(counts)));
}
