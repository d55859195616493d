/**
 * Dependencies between the moves of a plan, with which `planOp.ts` and the simulation run it with
 * as much in flight as possible.
 */
import type { Plan } from './plans.ts';

/** Dependencies of one move, as indices of earlier moves that touch the same elements. */
interface Needs {
  /** Moves that it waits for. Of a chain of moves that wait for each other, only the last. */
  readonly before: readonly number[];
  /** For a receive: the moves that wrote these elements last. */
  readonly writers: readonly number[];
}

const NONE: Needs = { before: [], writers: [] };

/**
 * Dependencies of each move of `plan`: earlier moves that touch the same elements, if one of the
 * two writes. The time grows with the number of moves and parts, not with pairs of moves.
 *
 * @param inPlace whether sends read the array that receives write.
 */
export function dependencies(plan: Plan, inPlace = true): Needs[] {
  const edges = [...new Set(plan.flatMap(({ start, end }) => [start, end]))].sort((a, b) => a - b);
  const placeOf = new Map(edges.map((edge, place) => [edge, place]));
  /**
   * No move starts or ends between two edges. For each such range: the last move that wrote it, and
   * later moves that read it.
   */
  const written = edges.map(() => -1);
  const read = edges.map((): number[] => []);
  return plan.map(({ kind, start, end }, i) => {
    if (kind === 'send' && !inPlace) return NONE;
    const before = new Set<number>();
    const writers = new Set<number>();
    const last = placeOf.get(end)!;
    for (let place = placeOf.get(start)!; place < last; place++) {
      const writer = written[place]!;
      const readers = read[place]!;
      if (kind === 'send') {
        if (writer >= 0) before.add(writer);
        readers.push(i);
        continue;
      }
      if (writer >= 0) writers.add(writer);
      if (readers.length === 0 && writer >= 0) before.add(writer);
      for (const reader of readers) before.add(reader);
      written[place] = i;
      if (readers.length > 0) read[place] = [];
    }
    return { before: [...before], writers: [...writers] };
  });
}
