/**
 * The state of a lesson with simulated ranks. It uses the rules of a room
 * (`engine/lesson/lessonRound.ts`) and simulated times.
 */
import { computed, signal, type ReadonlySignal } from '@preact/signals';
import {
  randomLessonNumbers,
  lessonRoundMs,
  continueLessonInWorld,
  applyLessonOrder,
  lessonMovesAt,
  roundStepCount,
  lessonStateAfterStep,
} from '../../engine/lesson/lessonRound.ts';
import { lessonNumbersPerRank, type LessonOrder, type LessonState, type LessonStep } from '../../protocol/lesson.ts';
import { mixSeed } from '../../util/rng.ts';

/** The smallest, largest and default number of ranks in a lesson for one person. */
export const SOLO_RANK_COUNTS = { min: 2, max: 16, usual: 4 } as const;

/** Duration of a simulated message, and of its animation on the ring, milliseconds. */
export const SOLO_HOP_MS = 750;

export interface SimulatedLesson {
  readonly state: ReadonlySignal<LessonState>;
  readonly isMoving: ReadonlySignal<boolean>;
  order(order: LessonOrder): void;
  drop(rank: number): void;
  /** Starts a new round with this number of ranks. */
  resize(n: number): void;
  dispose(): void;
}

export function createSimulatedLesson(n: number, seed: number): SimulatedLesson {
  const numbersFor = (members: LessonState['members'], before: LessonState | null): number[][] =>
    members.map(({ member }) => {
      const at = before?.members.findIndex((one) => one.member === member) ?? -1;
      const kept = at < 0 ? [] : before!.numbers[at]!;
      const drawn = randomLessonNumbers(
        mixSeed(seed, Number(member.split('-')[1])),
        lessonNumbersPerRank(members.length),
      );
      return [...kept, ...drawn.slice(kept.length)];
    });
  const withMembers = (before: LessonState | null, members: LessonState['members']): LessonState =>
    continueLessonInWorld(before, { members, leader: 0, numbers: numbersFor(members, before) });

  const state = signal(withMembers(null, membersOf(n)));
  const timers = signal<readonly ReturnType<typeof setTimeout>[]>([]);
  const halt = (): void => {
    for (const timer of timers.peek()) clearTimeout(timer);
    timers.value = [];
  };
  const move = (count: number): void => {
    const states = simulateNextSteps(state.peek(), count);
    const first = lessonRoundMs(state.peek().round) + SOLO_HOP_MS;
    timers.value = states.map((next, i) => {
      const isLast = i === states.length - 1;
      return setTimeout(
        () => {
          state.value = next;
          if (isLast) timers.value = [];
        },
        // Each state is set `SOLO_HOP_MS` before its step ends, because the ring then animates the
        // step for `SOLO_HOP_MS`. So the first step is shown immediately, unless its link is slow.
        lessonRoundMs(next.round) - first,
      );
    });
  };
  return {
    state,
    isMoving: computed(() => timers.value.length > 0),
    order: (order) => {
      if (order.type === 'page') state.value = applyLessonOrder(state.peek(), order);
      else if (timers.peek().length > 0) return;
      else if (order.type === 'steps') move(order.count);
      else state.value = applyLessonOrder(state.peek(), order);
    },
    drop: (rank) => {
      halt();
      const before = state.peek();
      state.value = withMembers(
        before,
        before.members.filter((_, i) => i !== rank),
      );
    },
    resize: (count) => {
      halt();
      const before = state.peek();
      state.value = applyLessonOrder(withMembers(before, membersOf(count)), {
        type: 'begin',
        mode: before.round.mode,
      });
    },
    dispose: halt,
  };
}

function membersOf(count: number): LessonState['members'] {
  return Array.from({ length: count }, (_, i) => ({ member: `imagined-${i}`, name: '' }));
}

/**
 * Returns the state after each of the next `count` steps, or of the remaining steps if there are
 * fewer. A message takes {@link SOLO_HOP_MS}. On the slow link, it takes the link's delay in
 * addition.
 */
export function simulateNextSteps(before: LessonState, count: number): LessonState[] {
  const { round, slow } = before;
  const { n, mode, steps } = round;
  const begin = lessonRoundMs(round);
  /**
   * `ready` is the time at which each rank has the data of its next step. `free` is the time at
   * which the link of each rank is free.
   */
  let ready = Array<number>(n).fill(begin);
  const free = Array<number>(n).fill(begin);
  const states: LessonState[] = [];
  let state = before;
  const last = Math.min(roundStepCount(mode, n), steps.length + count);
  for (let step = steps.length; step < last; step++) {
    const held = state.round.held.map((list) => [...list]);
    const taken: LessonStep = {
      startedAt: ready,
      endedAt: [...ready],
      sentBytes: ready.map(() => 0),
      receivedBytes: ready.map(() => 0),
    };
    for (const { from, to, start, end, adds } of lessonMovesAt(mode, n, step)) {
      const bytes = (end - start) * Float32Array.BYTES_PER_ELEMENT;
      let leaves = ready[from]!;
      if (slow?.rank === from) leaves = free[from] = Math.max(leaves, free[from]!) + slow.seconds * 1000;
      taken.endedAt[to] = Math.max(taken.endedAt[to]!, leaves + SOLO_HOP_MS);
      taken.sentBytes[from]! += bytes;
      taken.receivedBytes[to]! += bytes;
      const sent = state.round.held[from]!;
      for (let i = start; i < end; i++) held[to]![i] = adds ? held[to]![i]! + sent[i]! : sent[i]!;
    }
    ready = taken.endedAt;
    state = lessonStateAfterStep(state, taken, held);
    states.push(state);
  }
  return states;
}
