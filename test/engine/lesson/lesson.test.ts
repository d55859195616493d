/**
 * A lesson whose ranks are connected by memory links: the numbers after every step, joining and
 * leaving ranks, and the waits between ranks.
 */
import { afterEach, describe, expect, test } from 'vitest';
import { LessonRun } from '../../../src/engine/lesson/lesson.ts';
import { busiestDirectionBytes, lessonMovesAt, roundStepCount } from '../../../src/engine/lesson/lessonRound.ts';
import type { EventOf } from '../../../src/protocol/events.ts';
import { parseJob } from '../../../src/spec/job.ts';
import {
  lessonNumbersPerRank,
  type LessonAlgorithm,
  type LessonOrder,
  type LessonState,
} from '../../../src/protocol/lesson.ts';
import { createMeshes } from '../../../src/testing/index.ts';
import { systemClock } from '../../../src/util/clock.ts';
import { PeerGoneError, PeergradError } from '../../../src/util/errors.ts';

type LessonEvent = EventOf<'lesson'>;

/** A tab that can enter several worlds, one after the other. */
class Pupil {
  readonly id: string;
  readonly run: LessonRun;
  last: LessonEvent | null = null;
  readonly told: LessonEvent[] = [];
  #listeners: (() => void)[] = [];

  constructor(name: string, isHost = false) {
    this.id = `member-${name}`;
    this.run = new LessonRun({
      ...{ member: this.id, clock: systemClock, isHost: () => isHost },
      emit: (event) => {
        if (event.type !== 'lesson') return;
        this.last = event;
        this.told.push(event);
        for (const listener of this.#listeners.splice(0)) listener();
      },
    });
  }

  get state(): LessonState {
    return this.last!.state;
  }

  /** Resolves when `isSo` is true for the pupil's latest event. */
  async until(isSo: (state: LessonState, event: LessonEvent) => boolean): Promise<LessonState> {
    while (this.last === null || !isSo(this.last.state, this.last)) {
      await new Promise<void>((resolve) => {
        this.#listeners.push(resolve);
      });
    }
    return this.state;
  }
}

interface World {
  /** Resolves with the results of all pupils. */
  ended: Promise<unknown[]>;
  /** Breaks the links of a rank. */
  drop: (rank: number) => void;
  /** Ends the generation on all ranks, as the server does when another generation begins. */
  abort: () => void;
}

let generation = 0;
const opened: World[] = [];
afterEach(async () => {
  for (const { abort } of opened) abort();
  await Promise.all(opened.splice(0).map(({ ended }) => ended));
});

/** All pupils enter a world and run in it. */
async function meet(pupils: readonly Pupil[]): Promise<World> {
  const { meshes, links, close } = createMeshes(pupils.length, undefined, ++generation);
  const abort = new AbortController();
  const members = pupils.map(({ id }, i) => {
    return { member: id, name: id.slice(7), device: null, browser: i, rank: null };
  });
  const entered = pupils.map(({ run }, rank) =>
    run.enter({
      ...{
        generation,
        run: 1,
        rank,
        worldSize: pupils.length,
        localRank: 0,
        localWorldSize: 1,
        members,
        separated: [],
      },
      ...{ job: parseJob({ job: 'lesson' }), mesh: meshes[rank]!, links: links[rank]!, signal: abort.signal },
    }),
  );
  const reports = await Promise.all(entered);
  expect(new Set(reports.map(({ step, stateHash }) => `${step} ${stateHash}`)).size).toBe(1);
  const ended = Promise.all(pupils.map(({ run }) => run.train().catch((error: unknown) => error)));
  const world: World = {
    ended,
    drop: (rank) => links[rank]!.forEach((link) => link.close()),
    abort: () => {
      abort.abort(new PeergradError('Another generation begins.'));
      close();
    },
  };
  opened.push(world);
  return world;
}

function lead(pupils: readonly Pupil[], ...orders: LessonOrder[]): void {
  const leader = pupils.find(({ id, state }) => state.members[state.leader]!.member === id)!;
  for (const order of orders) leader.run.order(order);
}

/** Changes a pupil's own numbers, starting at place `first`. */
function type({ run }: Pupil, numbers: readonly number[], first = 0): void {
  for (const [place, value] of numbers.entries()) {
    if (place >= first) run.order({ type: 'edit', rank: 0, place, value });
  }
}

const all = (pupils: readonly Pupil[], holds: (state: LessonState, event: LessonEvent) => boolean) =>
  Promise.all(pupils.map((pupil) => pupil.until(holds)));

const pupilsOf = (n: number): Pupil[] => Array.from({ length: n }, (_, i) => new Pupil(`p${i}`, i === n - 1));

/** Returns the ranks' numbers after `steps` steps, as the plan defines them. */
function expected(mode: LessonAlgorithm, own: readonly number[][], steps: number): number[][] {
  const held = own.map((list) => [...list]);
  for (let step = 0; step < steps; step++) {
    const before = held.map((list) => [...list]);
    for (const { from, to, start, end, adds } of lessonMovesAt(mode, own.length, step)) {
      for (let i = start; i < end; i++) held[to]![i] = before[from]![i]! + (adds ? held[to]![i]! : 0);
    }
  }
  return held;
}

const sums = (own: readonly number[][]): number[] =>
  own[0]!.map((_, i) => own.reduce((sum, list) => sum + list[i]!, 0));

describe.each([2, 3, 5, 8])('%i ranks', (n) => {
  test.each(['ring', 'parameter-server'] as const)(
    'add up their numbers step by step with %s, and all have the same state after each step',
    async (mode) => {
      const pupils = pupilsOf(n);
      await meet(pupils);
      await all(pupils, () => true);
      expect(pupils[0]!.state.leader).toBe(n - 1);
      lead(pupils, { type: 'begin', mode });
      for (let step = 0; step <= roundStepCount(mode, n); step++) {
        if (step > 0) lead(pupils, { type: 'steps', count: 1 });
        const states = await all(pupils, ({ round }, { isMoving }) => {
          return round.mode === mode && round.steps.length === step && !isMoving;
        });
        for (const state of states) expect(state).toEqual(states[0]);
        const { round } = states[0]!;
        expect(round.own.map((list) => list.length)).toEqual(Array(n).fill(lessonNumbersPerRank(n)));
        expect(round.held).toEqual(expected(mode, round.own, step));
      }
      const { round, measured } = pupils[0]!.state;
      for (const list of round.held) expect(list).toEqual(sums(round.own));
      const bytes = 4 * lessonNumbersPerRank(n) * 2 * (n - 1);
      if (mode === 'parameter-server') expect(busiestDirectionBytes(round)[0]).toBe(bytes);
      // If all chunks have the same size, the bytes are equal to the theoretical number.
      else if (lessonNumbersPerRank(n) % n === 0)
        expect(busiestDirectionBytes(round)).toEqual(Array(n).fill(bytes / n));
      expect(measured[mode]).toEqual({ n, bytes: Math.max(...busiestDirectionBytes(round)) });
    },
  );
});

describe('a lesson', () => {
  test('uses an edit before a round in that round, and an edit during a round in the next round', async () => {
    const pupils = pupilsOf(3);
    await meet(pupils);
    await all(pupils, () => true);
    type(pupils[0]!, [1, 2, 3, 4]);
    type(pupils[2]!, [-99, 0, 99, 5]);
    await all(pupils, ({ round }) => round.own[0]![3] === 4 && round.own[2]![3] === 5);
    lead(pupils, { type: 'steps', count: 1 });
    await all(pupils, ({ round }, { isMoving }) => round.steps.length === 1 && !isMoving);
    // A rank cannot edit the numbers of other ranks. The edit applies to its own numbers.
    pupils[1]!.run.order({ type: 'edit', rank: 0, place: 0, value: 77 });
    type(pupils[1]!, [7, 7, 7, 7], 1);
    await all(pupils, ({ numbers }) => numbers[1]![3] === 7);
    expect(pupils[0]!.state.numbers[1]).toEqual([77, 7, 7, 7]);
    expect(pupils[0]!.state.round.own[1]).not.toEqual([77, 7, 7, 7]);
    expect(pupils[0]!.state.numbers[0]).toEqual([1, 2, 3, 4]);
    lead(pupils, { type: 'begin', mode: 'ring' }, { type: 'steps', count: 99 });
    await all(pupils, ({ round }, { isMoving }) => round.steps.length === 4 && !isMoving);
    expect(pupils[1]!.state.round.held[2]).toEqual([1 + 77 - 99, 2 + 7, 3 + 7 + 99, 4 + 7 + 5]);
  });

  test('shows that the delay of a slow line reaches one more rank in each ring step', async () => {
    const pupils = pupilsOf(4);
    await meet(pupils);
    await all(pupils, () => true);
    lead(pupils, { type: 'slow', slow: { rank: 1, seconds: 2 } }, { type: 'steps', count: 2 });
    await all(pupils, ({ round }, { isMoving }) => round.steps.length === 2 && !isMoving);
    const waits = pupils[0]!.state.round.steps.map(({ startedAt, endedAt }) =>
      endedAt.map((ms, rank) => ms - startedAt[rank]! > 1000),
    );
    // Rank 2 waits for the slow line of rank 1. In the next step rank 2 waits again, and rank 3
    // waits for rank 2.
    expect(waits).toEqual([
      [false, false, true, false],
      [false, false, true, true],
    ]);
    expect(pupils[2]!.told.some(({ waitsFor }) => waitsFor === 1)).toBe(true);
  });

  test('restarts a round with the numbers of the remaining ranks if a rank is lost during the round', async () => {
    const pupils = pupilsOf(4);
    const world = await meet(pupils);
    await all(pupils, () => true);
    lead(
      pupils,
      { type: 'steps', count: 2 },
      { type: 'page', page: 9 },
      { type: 'slow', slow: { rank: 3, seconds: 2 } },
    );
    await all(pupils, ({ round, slow }) => round.steps.length === 2 && slow !== null);
    const { numbers } = pupils[0]!.state;
    world.drop(1);
    const ended = await world.ended;
    for (const one of ended) expect(one).toBeInstanceOf(PeerGoneError);
    const survivors = pupils.filter((_, rank) => rank !== 1);
    await meet(survivors);
    await all(survivors, ({ members }) => members.length === 3);
    const { change, round, page, slow, leader } = survivors[0]!.state;
    expect(change).toEqual({ left: [{ rank: 1, name: 'p1' }], joined: [], isRestarted: true });
    expect(round).toMatchObject({ n: 3, number: 2, steps: [], own: [numbers[0], numbers[2], numbers[3]] });
    expect({ page, slow, leader }).toEqual({ page: 9, slow: { rank: 2, seconds: 2 }, leader: 2 });
    lead(survivors, { type: 'slow', slow: null }, { type: 'steps', count: 99 });
    await all(survivors, ({ round: now }) => now.steps.length === 4);
    for (const list of survivors[0]!.state.round.held) expect(list).toEqual(sums(round.own));
    expect(survivors[0]!.state.change).toBeNull();
  });

  test('lets a late rank wait for the next round, and restarts a round if the ranks have new numbers', async () => {
    const pupils = pupilsOf(2);
    const first = await meet(pupils);
    await all(pupils, () => true);
    lead(pupils, { type: 'steps', count: 1 });
    await all(pupils, ({ round }, { isMoving }) => round.steps.length === 1 && !isMoving);
    const { held } = pupils[0]!.state.round;
    first.abort();
    await first.ended;
    const late = new Pupil('late');
    const three = [...pupils, late];
    const second = await meet(three);
    await all(three, ({ members }) => members.length === 3);
    expect(late.state.round).toMatchObject({ n: 2, held });
    expect(late.state.change).toEqual({ left: [], joined: [{ rank: 2, name: 'late' }], isRestarted: false });
    lead(three, { type: 'steps', count: 1 });
    await all(three, ({ round }, { isMoving }) => round.steps.length === 2 && !isMoving);
    expect(late.state.round.held[0]).toEqual(sums(late.state.round.own));
    lead(three, { type: 'begin', mode: 'ring' }, { type: 'steps', count: 1 });
    await all(three, ({ round }, { isMoving }) => round.n === 3 && round.steps.length === 1 && !isMoving);
    second.abort();
    await second.ended;
    const moved = [late, ...pupils];
    await meet(moved);
    await all(moved, ({ members }) => members[0]!.name === 'late');
    expect(late.state.round).toMatchObject({ n: 3, steps: [] });
    expect(late.state.change).toEqual({ left: [], joined: [], isRestarted: true });
  });

  test('keeps a step that only one rank knows when the generation ends', async () => {
    const pupils = pupilsOf(2);
    const first = await meet(pupils);
    await all(pupils, () => true);
    lead(pupils, { type: 'steps', count: 1 });
    // If the generation ends now, only the first rank that knows of the step keeps it.
    await Promise.race(pupils.map((pupil) => pupil.until(({ round }) => round.steps.length === 1)));
    first.abort();
    await first.ended;
    await meet(pupils);
    const states = await all(pupils, ({ version }) => version > 2);
    expect(states[0]).toEqual(states[1]);
    expect(states[0]!.round.steps).toHaveLength(1);
  });

  test('ends on all ranks with the same state when its leader ends the lesson', async () => {
    const pupils = pupilsOf(3);
    const { ended } = await meet(pupils);
    await all(pupils, () => true);
    // Orders of ranks that are not the leader have no effect.
    pupils[0]!.run.order({ type: 'finish' });
    lead(pupils, { type: 'page', page: 1 });
    await all(pupils, ({ page }) => page === 1);
    lead(pupils, { type: 'finish' });
    const reports = (await ended) as { stateHash: string }[];
    expect(new Set(reports.map(({ stateHash }) => stateHash)).size).toBe(1);
    expect(pupils.every(({ state }) => state.isOver)).toBe(true);
  });

  test('sends nothing if it has only one rank', async () => {
    const pupils = pupilsOf(1);
    await meet(pupils);
    await all(pupils, () => true);
    lead(
      pupils,
      ...[1, 2, 3, 4].map((value, place) => ({ type: 'edit', rank: 0, place, value }) as const),
      { type: 'steps', count: 1 },
      { type: 'page', page: 2 },
    );
    const { round } = await pupils[0]!.until(({ page }) => page === 2);
    expect(round).toMatchObject({ n: 1, held: [[1, 2, 3, 4]], steps: [] });
  });
});
