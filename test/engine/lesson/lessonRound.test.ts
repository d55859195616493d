import { describe, expect, test } from 'vitest';
import {
  randomLessonNumbers,
  continueLessonInWorld,
  applyLessonOrder,
  isRoundDone,
  busiestDirectionBytes,
  lessonMovesAt,
  summedRanksAfter,
  roundStepCount,
  lessonStateAfterStep,
} from '../../../src/engine/lesson/lessonRound.ts';
import { LESSON_ALGORITHMS, lessonNumbersPerRank, type LessonState } from '../../../src/protocol/lesson.ts';

const membersOf = (...names: string[]) => names.map((name) => ({ member: `member-${name}`, name }));

const world = (...names: string[]) => ({
  members: membersOf(...names),
  leader: 0,
  numbers: names.map((_, i) => randomLessonNumbers(i, lessonNumbersPerRank(names.length))),
});

/** Takes a step in which every rank needed one second and all numbers are zero. */
const step = (state: LessonState): LessonState => {
  const { n, steps } = state.round;
  const all = (value: number): number[] => Array<number>(n).fill(value);
  const at = steps.length * 1000;
  const one = { startedAt: all(at), endedAt: all(at + 1000), sentBytes: all(4), receivedBytes: all(8) };
  const zeros = state.round.held.map((list) => list.map(() => 0));
  return lessonStateAfterStep(state, one, zeros);
};

test.each(LESSON_ALGORITHMS)(
  'after each step of a round with %s, every number is the sum over exactly the ranks that partsAfter returns',
  (mode) => {
    for (const n of [2, 3, 4, 5, 8, 16]) {
      const own = Array.from({ length: n }, (_, rank) => randomLessonNumbers(rank, lessonNumbersPerRank(n)));
      const held = own.map((list) => [...list]);
      for (let done = 0; ; done++) {
        const parts = summedRanksAfter(mode, n, done);
        const sums = parts.map((lists) => lists.map((ranks, i) => ranks.reduce((sum, one) => sum + own[one]![i]!, 0)));
        expect(sums).toEqual(held);
        expect(parts.flat().every((ranks) => new Set(ranks).size === ranks.length)).toBe(true);
        if (done === roundStepCount(mode, n)) {
          expect(parts.flat().every((ranks) => ranks.length === n)).toBe(true);
          break;
        }
        for (const { from, to, start, end, adds } of lessonMovesAt(mode, n, done)) {
          for (let i = start; i < end; i++) held[to]![i] = held[from]![i]! + (adds ? held[to]![i]! : 0);
        }
      }
    }
  },
);

describe('the state of a lesson', () => {
  test('counts the bytes of a line in its busier direction, and stores those of the busiest line after a round', () => {
    const before = applyLessonOrder(continueLessonInWorld(null, world('a', 'b', 'c')), {
      type: 'begin',
      mode: 'parameter-server',
    });
    const done = step(step(before));
    expect(isRoundDone(done.round)).toBe(true);
    expect(busiestDirectionBytes(done.round)).toEqual([16, 16, 16]);
    expect(done.measured).toEqual({ ring: null, 'parameter-server': { n: 3, bytes: 16 } });
  });

  test('ignores edits at positions that do not exist', () => {
    const state = continueLessonInWorld(null, world('a', 'b'));
    const edited = applyLessonOrder(state, { type: 'edit', rank: 1, place: 3, value: -7 });
    expect(edited.round.own[1]![3]).toBe(-7);
    expect(applyLessonOrder(state, { type: 'edit', rank: 1, place: 4, value: 1 })).toBe(state);
    expect(applyLessonOrder(state, { type: 'edit', rank: 2, place: 0, value: 1 })).toBe(state);
  });

  test('lets newcomers wait for the next round as long as the ranks of this round keep their numbers', () => {
    const state = step(continueLessonInWorld(null, world('a', 'b')));
    const more = continueLessonInWorld(state, world('a', 'b', 'c'));
    expect(more.round).toBe(state.round);
    expect(more.change).toMatchObject({ left: [], joined: [{ rank: 2, name: 'c' }], isRestarted: false });
    expect(applyLessonOrder(more, { type: 'begin', mode: 'ring' })).toMatchObject({
      round: { n: 3, number: 2 },
      change: null,
    });
    // A member that waits leaves, which does not change the round.
    expect(continueLessonInWorld(more, world('a', 'b')).round).toBe(state.round);
  });

  test('restarts a round when one of its ranks leaves, and removes the slow line together with its rank', () => {
    const slowed = applyLessonOrder(continueLessonInWorld(null, world('a', 'b', 'c')), {
      type: 'slow',
      slow: { rank: 1, seconds: 4 },
    });
    expect(continueLessonInWorld(slowed, world('c', 'b')).slow).toEqual({ rank: 1, seconds: 4 });
    expect(continueLessonInWorld(slowed, world('a', 'c')).slow).toBeNull();
    // The round has the same number, because nothing had been sent in it.
    expect(continueLessonInWorld(slowed, world('a', 'c'))).toMatchObject({
      round: { n: 2, number: 1 },
      change: { isRestarted: false },
    });
    const left = continueLessonInWorld(step(slowed), world('a', 'c'));
    expect(left.round).toMatchObject({ n: 2, number: 2, steps: [] });
    expect(left.change).toEqual({ left: [{ rank: 1, name: 'b' }], joined: [], isRestarted: true });
  });
});
