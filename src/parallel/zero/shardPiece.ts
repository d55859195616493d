/** The averages of one shard, and their transfer to the ranks of a new world. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { ElementRange } from '../../util/range.ts';
import type { ShardPlace } from '../ddp/bucketShards.ts';
import { totalRangeLength } from '../ddp/ranges.ts';
import type { HeldShard, AveragesMove } from './redistribution.ts';

/** Averages of a shard, without gaps; see {@link HeldShard}. */
export interface ShardPiece extends HeldShard {
  readonly slots: readonly Float32Array<ArrayBuffer>[];
}

/** The place of a shard that has all parameters. */
export const WHOLE_SHARD: ShardPlace = { worldSize: 1, rank: 0 };

/**
 * Moves the averages of shards to the ranks of a group. Every rank must call it with the same
 * `moves`.
 *
 * @param held the pieces of this rank, to which its moves refer.
 * @param slots number of averages of a parameter.
 * @returns the averages of this rank's shard. Elements to which nothing moves are zero.
 */
export async function moveShardPieces(
  group: ProcessGroup,
  held: readonly ShardPiece[],
  moves: readonly AveragesMove[],
  rangesOf: (place: ShardPlace) => readonly ElementRange[],
  slots: number,
): Promise<Float32Array<ArrayBuffer>[]> {
  const { rank, worldSize, ranks } = group;
  const target = rangesOf({ worldSize, rank });
  const placeIn = positionsIn(target);
  const moved = Array.from({ length: slots }, () => new Float32Array(totalRangeLength(target)));
  const sources = held.map(({ place }) => positionsIn(rangesOf(place)));
  const valuesOf = (move: AveragesMove, slot: number): Float32Array => {
    const start = sources[move.held]!(move);
    return held[move.held]!.slots[slot]!.subarray(start, start + move.end - move.start);
  };
  const works: PromiseLike<unknown>[] = [];
  const received: { values: Float32Array<ArrayBuffer>; slot: number; parts: AveragesMove[] }[] = [];
  for (const [peer, dst] of ranks.entries()) {
    const sent = moves.filter(({ from, to }) => from === rank && to === peer);
    const parts = moves.filter(({ from, to }) => from === peer && to === rank);
    for (const [slot, values] of moved.entries()) {
      if (peer === rank) {
        for (const move of sent) values.set(valuesOf(move, slot), placeIn(move));
        continue;
      }
      if (sent.length > 0) {
        const message = new Float32Array(totalRangeLength(sent));
        let at = 0;
        for (const move of sent) {
          message.set(valuesOf(move, slot), at);
          at += move.end - move.start;
        }
        works.push(group.isend(message, dst, { tag: slot }));
      }
      if (parts.length > 0) {
        const message = new Float32Array(totalRangeLength(parts));
        works.push(group.irecv(message, dst, { tag: slot }));
        received.push({ values: message, slot, parts });
      }
    }
  }
  await Promise.all(works);
  for (const { values, slot, parts } of received) {
    let at = 0;
    for (const move of parts) {
      const { length } = values.subarray(at, at + move.end - move.start);
      moved[slot]!.set(values.subarray(at, at + length), placeIn(move));
      at += length;
    }
  }
  return moved;
}

/**
 * Returns a function that returns the index of an element in an array that has the elements of
 * `ranges` without gaps. There is one range for each bucket.
 */
function positionsIn(ranges: readonly ElementRange[]): (element: Pick<AveragesMove, 'bucket' | 'start'>) => number {
  let size = 0;
  const offsets = ranges.map(({ start, end }) => {
    const offset = size - start;
    size += end - start;
    return offset;
  });
  return ({ bucket, start }) => offsets[bucket]! + start;
}
