import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { busiestDirectionBytes, roundAfterSteps } from '../../../src/engine/lesson/lessonRound.ts';
import { busiestLinkBytes } from '../../../src/app/lesson/BusiestLinkComparison.tsx';
import { timeBlocksOfRank } from '../../../src/app/lesson/SlowLinkPanel.tsx';
import {
  isLessonPartShown,
  LESSON_PAGES,
  pageNeedsNewRound,
  nearestLessonPage,
} from '../../../src/app/lesson/pages.ts';
import { describeLessonStep, formatSum } from '../../../src/app/lesson/describeLessonStep.ts';
import {
  createSimulatedLesson,
  SOLO_HOP_MS,
  simulateNextSteps,
  type SimulatedLesson,
} from '../../../src/app/lesson/solo.ts';
import { en } from '../../../src/app/locales/en/index.ts';
import { zh } from '../../../src/app/locales/zh/index.ts';
import { LESSON_ALGORITHMS } from '../../../src/protocol/lesson.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const numbersOfSolo = ({ state }: SimulatedLesson): readonly number[][] => state.value.round.own;

describe('the pages of the lesson', () => {
  test('highlight no part that is hidden', () => {
    LESSON_PAGES.forEach(({ lights }, page) => expect(lights === null || isLessonPartShown(lights, page)).toBe(true));
  });

  test('have texts in every language', () => {
    const facts = { n: 3, k: 4, firstSum: '1 + 2 + 3 = 6', chunks: 'A, B, C' };
    for (const { lesson } of [en, zh]) {
      const titles = LESSON_PAGES.map(({ name }) => lesson.thoughts[name](facts).title);
      expect(new Set(titles).size).toBe(LESSON_PAGES.length);
    }
  });

  test('are found by the number in the address; an invalid number gives the first or the last page', () => {
    expect([0, 3, 99, -1, 1.5, Number.NaN].map(nearestLessonPage)).toEqual([0, 3, LESSON_PAGES.length - 1, 0, 0, 0]);
  });
});

test('a page about ring neighbours begins a new round if the current round is over or uses a server; other pages keep the round', () => {
  const solo = createSimulatedLesson(4, 7);
  const begin = solo.state.value;
  const over = simulateNextSteps(begin, 99).at(-1)!;
  solo.order({ type: 'begin', mode: 'parameter-server' });
  const pagesThatBegin = ({ round }: typeof begin): string[] =>
    LESSON_PAGES.flatMap(({ name }, page) => (pageNeedsNewRound(page, round) ? [name] : []));
  expect(pagesThatBegin(begin)).toEqual([]);
  expect(pagesThatBegin(over)).toEqual(['reduceScatter', 'slow', 'drop']);
  expect(pagesThatBegin(solo.state.value)).toEqual(['reduceScatter', 'slow', 'drop']);
});

test.each(LESSON_ALGORITHMS)(
  'a picture that shows an earlier step of a round in the mode %s has the numbers of that step',
  (mode) => {
    const solo = createSimulatedLesson(3, 7);
    solo.order({ type: 'begin', mode });
    const rounds = [solo.state.value, ...simulateNextSteps(solo.state.value, 99)].map(({ round }) => round);
    expect(rounds.map((_, step) => roundAfterSteps(rounds.at(-1)!, step))).toEqual(rounds);
  },
);

describe('a lesson in a single tab', () => {
  test.each(LESSON_ALGORITHMS)(
    'ends with all sums at every rank in the mode %s, and its busiest link carries the bytes that busiestLinkBytes returns',
    (mode) => {
      for (const n of [2, 4, 8, 16]) {
        const solo = createSimulatedLesson(n, 7);
        solo.order({ type: 'begin', mode });
        const { round } = simulateNextSteps(solo.state.value, 99).at(-1)!;
        const k = round.own[0]!.length;
        for (const list of round.held)
          expect(list).toEqual(list.map((_, i) => round.own.reduce((s, one) => s + one[i]!, 0)));
        expect(Math.max(...busiestDirectionBytes(round))).toBe(busiestLinkBytes(mode, n, k));
      }
    },
  );

  test('takes the first of three requested steps immediately, and the next two at intervals of SOLO_HOP_MS', () => {
    const solo = createSimulatedLesson(4, 1);
    const taken = (): number => solo.state.value.round.steps.length;
    solo.order({ type: 'steps', count: 3 });
    expect(solo.isMoving.value).toBe(true);
    vi.advanceTimersByTime(0);
    expect(taken()).toBe(1);
    vi.advanceTimersByTime(SOLO_HOP_MS - 1);
    expect(taken()).toBe(1);
    // While steps are taken, other orders are ignored.
    solo.order({ type: 'begin', mode: 'ring' });
    vi.advanceTimersByTime(2 * SOLO_HOP_MS);
    expect(taken()).toBe(3);
    expect(solo.isMoving.value).toBe(false);
    expect(solo.state.value.round.number).toBe(1);
  });

  test('shows that the delay of a slow link reaches one more rank with each step', () => {
    const solo = createSimulatedLesson(4, 1);
    solo.order({ type: 'slow', slow: { rank: 0, seconds: 4 } });
    const { round } = simulateNextSteps(solo.state.value, 99).at(-1)!;
    const stalled = [0, 1, 2, 3].map((rank) =>
      timeBlocksOfRank(round, rank)
        .map(({ isStalled }) => isStalled)
        .indexOf(true),
    );
    expect(stalled).toEqual([3, 0, 1, 2]);
    solo.order({ type: 'steps', count: 1 });
    vi.advanceTimersByTime(3999);
    expect(solo.state.value.round.steps).toHaveLength(0);
    vi.advanceTimersByTime(1);
    expect(solo.state.value.round.steps).toHaveLength(1);
  });

  test('restarts with the remaining ranks and their numbers when a rank leaves', () => {
    const solo = createSimulatedLesson(4, 1);
    solo.order({ type: 'edit', rank: 0, place: 0, value: -42 });
    const before = numbersOfSolo(solo);
    solo.order({ type: 'steps', count: 2 });
    solo.drop(1);
    vi.advanceTimersByTime(10_000);
    expect(solo.state.value.round).toMatchObject({ n: 3, number: 1, steps: [] });
    solo.order({ type: 'steps', count: 1 });
    vi.advanceTimersByTime(0);
    solo.drop(1);
    expect(numbersOfSolo(solo)).toEqual([before[0], before[3]]);
    expect(solo.state.value.change).toMatchObject({ left: [{ rank: 1 }], isRestarted: true });
    solo.resize(6);
    expect(numbersOfSolo(solo).map((list) => list.length)).toEqual(Array(6).fill(6));
    expect(numbersOfSolo(solo)[0]!.slice(0, 4)).toEqual(before[0]);
  });
});

test('describeLessonStep names the numbers that a rank has sent, received and added in its latest step', () => {
  const solo = createSimulatedLesson(3, 1);
  [1, 2, 3, 4].forEach((value, place) => solo.order({ type: 'edit', rank: 0, place, value }));
  [10, 20, 30, 40].forEach((value, place) => solo.order({ type: 'edit', rank: 2, place, value }));
  expect(describeLessonStep(solo.state.value.round, 0)).toEqual({ kind: 'ready' });
  const states = simulateNextSteps(solo.state.value, 99);
  expect(describeLessonStep(states[0]!.round, 0)).toEqual({
    kind: 'added',
    sent: { chunk: 2, numbers: [4], to: 1 },
    got: { chunk: 1, from: 2, numbers: [30], own: [3], sums: [33] },
  });
  expect(describeLessonStep(states[2]!.round, 0)).toMatchObject({ kind: 'copied', got: { from: 2 } });
  expect(describeLessonStep(states[2]!.round, 3)).toEqual({ kind: 'waiting' });
});

test('the text of a sum has negative terms in brackets, except the first term', () => {
  expect(formatSum([3, -5, 2])).toBe('3 + (−5) + 2');
  expect(formatSum([-3, 5])).toBe('−3 + 5');
});
