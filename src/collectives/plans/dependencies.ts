/**
 * Finds the dependencies between the moves of a plan. With them, `planOp.ts` and the simulation run
 * as many moves at the same time as possible.
 */
import type { Plan } from './plans.ts';

/** Dependencies of one move, as indices of earlier moves that touch the same elements. */
interface Needs {
  /**
   * Moves that this move waits for. If several of them wait for each other in a chain, only the
   * last one is listed.
   */
  readonly before: readonly number[];
  /** For a receive, the latest earlier moves that write the same elements. */
  readonly writers: readonly number[];
}

const NONE: Needs = { before: [], writers: [] };

/**
 * Returns the dependencies of each move of `plan`. A move depends on an earlier move if both touch
 * the same elements and at least one of them writes. The function does not compare all pairs of
 * moves, so that it is fast for long plans.
 *
 * @param inPlace whether sends and receives use the same array.
 */
export function dependencies(plan: Plan, inPlace = true): Needs[] {
  const edges = [...new Set(plan.flatMap(({ start, end }) => [start, end]))].sort((a, b) => a - b);
  const placeOf = new Map(edges.map((edge, place) => [edge, place]));
  /**
   * No move starts or ends inside the range between two neighbouring edges. For each such range,
   * `written` has the last move that wrote it, and `read` has the later moves that read it.
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
