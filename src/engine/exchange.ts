/** Statistics that ranks tell each other beside training. Integers below 2^53 are exact in float64. */
import type { ProcessGroup } from '../collectives/processGroup.ts';
import type { RankStatistics } from '../protocol/events.ts';

const FIELDS = [
  'computeMs',
  'communicateMs',
  'stepMs',
  'gradientBytesSent',
  'gradientBytesReceived',
  'otherBytesSent',
] as const satisfies readonly (keyof RankStatistics)[];

/** Every rank's statistics, in rank order. */
export async function exchangeStatistics(
  group: ProcessGroup,
  mine: Omit<RankStatistics, 'rank'>,
): Promise<RankStatistics[]> {
  const rows = await group.allGather(Float64Array.from(FIELDS, (field) => mine[field]));
  return rows.map((row, rank) => {
    const [computeMs, communicateMs, stepMs, gradientBytesSent, gradientBytesReceived, otherBytesSent] =
      Array.from(row);
    return {
      ...{ rank, computeMs: computeMs!, communicateMs: communicateMs!, stepMs: stepMs! },
      gradientBytesSent: gradientBytesSent!,
      gradientBytesReceived: gradientBytesReceived!,
      otherBytesSent: otherBytesSent!,
    };
  });
}
