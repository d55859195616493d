/**
 * Which moves of a plan have to wait for which: what lets `planOp.ts` and the simulation run it
 * with as much in flight as it allows.
 */
import type { Plan } from './plans.ts';

/** Of one move, by the places in the plan of those before it that touch the same elements. */
interface Needs {
  /**
   * It waits for these. Of several that wait for each other, the last: who waits for it waits for
   * all.
   */
  readonly before: readonly number[];
  /** Of a receive: those that wrote these elements last. */
  readonly writers: readonly number[];
}

const NONE: Needs = { before: [], writers: [] };

/**
 * What each move of `plan` needs: those before it that touch the same elements, where one of the
 * two writes. In time that grows with the moves and the parts that the tensor is cut into, not with
 * pairs of moves.
 *
 * @param inPlace whether sends read what receives write.
 */
export function dependencies(plan: Plan, inPlace = true): Needs[] {
  const edges = [...new Set(plan.flatMap(({ start, end }) => [start, end]))].sort((a, b) => a - b);
  const placeOf = new Map(edges.map((edge, place) => [edge, place]));
  /**
   * Between two edges nothing is cut: the last move that wrote there, and those that have read it
   * since.
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
