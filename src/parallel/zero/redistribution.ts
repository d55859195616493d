/**
 * Plans how ranks send each other the averages of their shards when the world changes. The
 * functions are pure, so every rank computes the same plan.
 */
import type { ElementRange } from '../../util/range.ts';
import type { ShardPlace } from '../ddp/bucketShards.ts';
import { totalRangeLength, rangesWithout } from '../ddp/ranges.ts';

/**
 * Averages of one shard that a rank holds: those of its own shard, or a copy of those of another
 * shard.
 */
export interface HeldShard {
  readonly place: ShardPlace;
  /** Number of steps by which the averages are behind the parameters. */
  readonly age: number;
}

/**
 * Elements of one bucket whose averages rank `from` sends to rank `to`: `start` .. `end`-1 of the
 * flat arrays.
 */
export interface AveragesMove extends ElementRange {
  readonly from: number;
  /** Index in the list of shards that `from` holds. */
  readonly held: number;
  readonly to: number;
  readonly bucket: number;
}

export interface ShardRedistribution {
  /**
   * All moves. Those to one rank are in the order of the flat arrays. A rank that keeps elements
   * has a move to itself.
   */
  moves: AveragesMove[];
  /** Number of elements whose averages no rank holds. */
  missing: number;
  /** Number of elements whose averages lack steps. */
  stale: number;
  /** Largest number of steps that averages lack. */
  oldest: number;
}

/**
 * Assigns each element of the new shards to the rank that holds its newest averages. With equal
 * ages, the new owner itself is preferred, then the lowest rank.
 *
 * @param held the shards that each rank holds, by rank of the new world.
 * @param rangesOf returns the ranges of a shard, one for each bucket.
 */
export function redistributeShards(
  held: readonly (readonly HeldShard[])[],
  rangesOf: (place: ShardPlace) => readonly ElementRange[],
): ShardRedistribution {
  const result: ShardRedistribution = { moves: [], missing: 0, stale: 0, oldest: 0 };
  const sources = held.flatMap((shards, from) =>
    shards.map(({ place, age }, index) => ({ from, held: index, age, ranges: rangesOf(place) })),
  );
  for (const to of held.keys()) {
    const isOther = ({ from }: { from: number }): number => Number(from !== to);
    const preferred = sources.toSorted((a, b) => a.age - b.age || isOther(a) - isOther(b) || a.from - b.from);
    for (const [bucket, target] of rangesOf({ worldSize: held.length, rank: to }).entries()) {
      let open: ElementRange[] = [target].filter(({ start, end }) => start < end);
      const moves: AveragesMove[] = [];
      for (const { from, held: index, age, ranges } of preferred) {
        if (open.length === 0) break;
        const source = ranges[bucket]!;
        for (const part of open) {
          const start = Math.max(part.start, source.start);
          const end = Math.min(part.end, source.end);
          if (start >= end) continue;
          moves.push({ from, held: index, to, bucket, start, end });
          if (age === 0) continue;
          result.stale += end - start;
          result.oldest = Math.max(result.oldest, age);
        }
        open = rangesWithout(open, source);
      }
      result.missing += totalRangeLength(open);
      result.moves.push(...moves.sort((a, b) => a.start - b.start));
    }
  }
  return result;
}
