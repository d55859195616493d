/**
 * The rules of a lesson as pure functions. They define which numbers move in each step, and how the
 * state changes after an order, after a step, and when members join or leave. In a room, ranks send
 * the numbers over their links (`lesson.ts`). A page without a room simulates the ranks.
 */
import { chunkRange, ringStepCount, ringTransfersAt } from '../../collectives/plans/ringPlan.ts';
import {
  lessonNumbersPerRank,
  type LessonAlgorithm,
  type LessonOrder,
  type LessonRound,
  type LessonState,
  type LessonStep,
} from '../../protocol/lesson.ts';
import { createRng } from '../../util/rng.ts';

/**
 * Rank `from` sends its numbers `start` to `end` (exclusive) to rank `to`. If `adds`, rank `to`
 * adds them to its own numbers; otherwise they replace its own numbers.
 */
interface LessonMove {
  from: number;
  to: number;
  start: number;
  end: number;
  adds: boolean;
}

/** Returns the number of steps of a round: 2(n-1) on the ring, or two with a parameter server. */
export function roundStepCount(mode: LessonAlgorithm, n: number): number {
  return mode === 'ring' ? ringStepCount(n) : n > 1 ? 2 : 0;
}

/**
 * Returns the moves in step `step` of a round, sorted by sender. On the ring, they follow the plan
 * of the ring all-reduce.
 */
export function lessonMovesAt(mode: LessonAlgorithm, n: number, step: number): LessonMove[] {
  const count = lessonNumbersPerRank(n);
  if (mode === 'ring') {
    return ringTransfersAt(n, step).map(({ from, to, chunk, phase }) => {
      return { from, to, ...chunkRange(count, n, chunk), adds: phase === 'reduce-scatter' };
    });
  }
  const others = Array.from({ length: n - 1 }, (_, i) => i + 1);
  const all = { start: 0, end: count };
  return step === 0
    ? others.map((from) => ({ from, to: 0, ...all, adds: true }))
    : others.map((to) => ({ from: 0, to, ...all, adds: false }));
}

/** A tab's initial numbers are 1 to this number, so that sums are easy to check. */
const LARGEST_DRAWN = 9;

export function randomLessonNumbers(seed: number, count: number): number[] {
  const rng = createRng(seed);
  return Array.from({ length: count }, () => 1 + rng.below(LARGEST_DRAWN));
}

/**
 * After `steps` steps, each number of a rank is a sum of numbers of some ranks. For each rank and
 * each of its numbers, returns these ranks in the order of addition.
 */
export function summedRanksAfter(mode: LessonAlgorithm, n: number, steps: number): number[][][] {
  const parts = Array.from({ length: n }, (_, rank) => Array.from({ length: lessonNumbersPerRank(n) }, () => [rank]));
  for (let step = 0; step < steps; step++) {
    // In one step, no rank sends a number that it receives in the same step. So the moves of a step
    // can be applied one after the other.
    for (const { from, to, start, end, adds } of lessonMovesAt(mode, n, step)) {
      for (let i = start; i < end; i++) {
        const sent = parts[from]![i]!;
        parts[to]![i] = adds ? (mode === 'ring' ? [...sent, to] : [...parts[to]![i]!, from]) : sent;
      }
    }
  }
  return parts;
}

/**
 * Returns the round as it was after `steps` steps. A picture that still shows an earlier step takes
 * all its numbers from this round.
 */
export function roundAfterSteps(round: LessonRound, steps: number): LessonRound {
  if (steps >= round.steps.length) return round;
  const { mode, n, own } = round;
  const held = summedRanksAfter(mode, n, steps).map((places) =>
    places.map((ranks, place) => ranks.reduce((sum, rank) => sum + own[rank]![place]!, 0)),
  );
  return { ...round, held, steps: round.steps.slice(0, steps) };
}

/**
 * Returns the milliseconds from the round's first step to the end of the latest step. Time spent
 * waiting for users is not included.
 */
export function lessonRoundMs({ steps }: LessonRound): number {
  return Math.max(0, ...steps.flatMap(({ endedAt }) => endedAt));
}

/**
 * Returns, for each rank, the bytes that determine how long its line was busy in this round. A line
 * transfers in both directions at once, so for each step only the larger of sent and received bytes
 * is added.
 */
export function busiestDirectionBytes({ n, steps }: LessonRound): number[] {
  return Array.from({ length: n }, (_, rank) =>
    steps.reduce((sum, { sentBytes, receivedBytes }) => sum + Math.max(sentBytes[rank]!, receivedBytes[rank]!), 0),
  );
}

export function isLessonRoundUnderWay({ steps }: LessonRound): boolean {
  return steps.length > 0;
}

export function isRoundDone({ mode, n, steps }: LessonRound): boolean {
  return steps.length >= roundStepCount(mode, n);
}

interface LessonWorld {
  /** In ring order. */
  members: LessonState['members'];
  leader: number;
  /**
   * Each rank's numbers. The first index is the rank. There are at least as many numbers as the
   * world needs.
   */
  numbers: readonly (readonly number[])[];
}

/**
 * Returns the state with which the ranks of this world continue from `before`. If `before` is
 * `null`, they begin a lesson.
 */
export function continueLessonInWorld(
  before: LessonState | null,
  { members, leader, numbers: given }: LessonWorld,
): LessonState {
  const numbers = given.map((own) => own.slice(0, lessonNumbersPerRank(members.length)));
  if (before === null) {
    return {
      version: 1,
      members,
      leader,
      page: 0,
      numbers,
      round: beginRound(1, 'ring', numbers),
      slow: null,
      measured: { ring: null, 'parameter-server': null },
      change: null,
      isOver: false,
    };
  }
  const { round, slow } = before;
  const left = missingFrom(members, before.members);
  const joined = missingFrom(before.members, members);
  const isSameRing = before.members.slice(0, round.n).every(({ member }, rank) => members[rank]?.member === member);
  const goesOn = isLessonRoundUnderWay(round) && isSameRing;
  const isRestarted = isLessonRoundUnderWay(round) && !goesOn;
  const slowed = slow && members.findIndex(({ member }) => member === before.members[slow.rank]!.member);
  return {
    ...{ ...before, version: before.version + 1, members, leader, numbers },
    round: goesOn ? round : beginRound(round.number + (isRestarted ? 1 : 0), round.mode, numbers),
    slow: slow === null || slowed === null || slowed < 0 ? null : { ...slow, rank: slowed },
    change: left.length + joined.length > 0 || isRestarted ? { left, joined, isRestarted } : before.change,
  };
}

/** Returns the members of `now` that are not in `members`, with their ranks in `now`. */
function missingFrom(members: LessonState['members'], now: LessonState['members']): { rank: number; name: string }[] {
  const ids = new Set(members.map(({ member }) => member));
  return now.flatMap(({ member, name }, rank) => (ids.has(member) ? [] : [{ rank, name }]));
}

function beginRound(number: number, mode: LessonAlgorithm, numbers: readonly number[][]): LessonRound {
  const n = numbers.length;
  const own = numbers.map((list) => list.slice(0, lessonNumbersPerRank(n)));
  return { number, mode, n, own, held: own, steps: [] };
}

/**
 * Returns the state after an order. Orders to take steps are handled by {@link
 * lessonStateAfterStep}.
 */
export function applyLessonOrder(before: LessonState, order: Exclude<LessonOrder, { type: 'steps' }>): LessonState {
  const state = { ...before, version: before.version + 1 };
  const { round, numbers, members } = state;
  switch (order.type) {
    case 'edit': {
      const { rank, place, value } = order;
      // An edit that was sent in a larger ring may have a place that does not exist in this ring.
      if (rank >= members.length || place >= lessonNumbersPerRank(members.length)) return before;
      const edited = numbers.with(rank, numbers[rank]!.with(place, value));
      return {
        ...state,
        numbers: edited,
        round: isLessonRoundUnderWay(round) ? round : beginRound(round.number, round.mode, edited),
      };
    }
    case 'begin':
      return { ...state, round: beginRound(round.number + 1, order.mode, numbers), change: null };
    case 'slow':
      return { ...state, slow: order.slow };
    case 'page':
      return { ...state, page: order.page };
    case 'finish':
      return { ...state, isOver: true };
    default:
      return order satisfies never;
  }
}

/** Returns the state after one more step. `held` has each rank's numbers after the step. */
export function lessonStateAfterStep(before: LessonState, step: LessonStep, held: readonly number[][]): LessonState {
  const { n, mode, steps } = before.round;
  const round = { ...before.round, held: [...held], steps: [...steps, step] };
  const state = { ...before, version: before.version + 1, round, change: null };
  if (!isRoundDone(round)) return state;
  return {
    ...state,
    measured: { ...before.measured, [mode]: { n, bytes: Math.max(...busiestDirectionBytes(round)) } },
  };
}
