import { signal } from '@preact/signals';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ringFrameAt, traceTimelineOf } from '../../../../src/app/ring/frameAt.ts';
import type { PlayerOptions } from '../../../../src/app/ring/player/playback.ts';
import { createRingPlayer, type RingPlayer, type PlayedRound } from '../../../../src/app/ring/player/player.ts';
import { simulatedTrace } from '../../../../src/app/ring/simulatedTrace.ts';
import {
  nextStopPosition,
  planPlaybackPacing,
  playbackPositionAfterSteps,
  reducedMotionPosition,
  stepsDoneAtPosition,
  traceTimeAt,
} from '../../../../src/app/ring/player/pacing.ts';
import { allReduceSteps } from '../../../../src/collectives/plans/planSteps.ts';
import { ALL_REDUCE_NAMES, whyAlgorithmCannotRun, type AllReduceName } from '../../../../src/spec/algorithms.ts';

/**
 * A trace of two ranks and two ring steps. Chunks are on their way from 0.6 to 3.6 ms and from 4.6
 * to 7.6 ms.
 */
const LINE = planPlaybackPacing(traceTimelineOf(simulatedTrace(2, 'ring'), allReduceSteps('ring', 2)));
const no = signal(false);

function options(autoplay: boolean): PlayerOptions {
  return { autoplay, reducedMotion: no, thrifty: no };
}

function stageOf(n: number, step = 0, algorithm: AllReduceName = 'ring'): PlayedRound {
  return { n, trace: { ...simulatedTrace(n, algorithm), step } };
}

/** Callbacks of animation frames. The test calls them. */
let frames: ((now: number) => void)[] = [];
let now = 0;

function advance(ms: number): void {
  for (let passed = 0; passed < ms; passed += 50) {
    now += 50;
    const due = frames;
    frames = [];
    for (const frame of due) frame(now);
  }
}

beforeEach(() => {
  frames = [];
  now = 0;
  vi.stubGlobal('requestAnimationFrame', (frame: (now: number) => void) => frames.push(frame));
  vi.stubGlobal('cancelAnimationFrame', () => (frames = []));
  vi.spyOn(performance, 'now').mockImplementation(() => now);
});

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

describe('stepping through a round', () => {
  test('shows the start, the middle of each ring step, and the end, forwards and backwards', () => {
    const times = [0];
    let place = 0;
    for (let i = 0; i < 4; i++) {
      place = nextStopPosition(LINE, place, 1);
      times.push(Number(traceTimeAt(LINE, place).toFixed(3)));
    }
    expect(times).toEqual([0, 2.1, 6.1, 7.6, 7.6]);
    expect(traceTimeAt(LINE, nextStopPosition(LINE, 0.6, -1))).toBeCloseTo(2.1);
    expect(nextStopPosition(LINE, 0, -1)).toBe(0);
  });

  test('shows only a few still pictures if the user wants less motion', () => {
    expect(reducedMotionPosition(LINE, 0)).toBe(0);
    expect(reducedMotionPosition(LINE, 0.1)).toBe(reducedMotionPosition(LINE, 0.4));
    expect(traceTimeAt(LINE, reducedMotionPosition(LINE, 0.6))).toBeCloseTo(6.1);
    expect(reducedMotionPosition(LINE, 1)).toBe(1);
  });
});

describe('pacing', () => {
  test('slows down all ring steps by the same factor if every ring step is then long enough to be seen', () => {
    expect(LINE).toMatchObject({ duration: 4000, stretched: false });
    expect(LINE.slowdown).toBeCloseTo(4000 / 7.6);
    expect(LINE.ends[0]).toBeCloseTo(3.6 / 7.6);
  });

  test('stretches a ring step that would be too short to be seen, and marks the round as stretched', () => {
    const quick = planPlaybackPacing({ leaves: [0, 0.1], arrives: [0.1, 50], duration: 50 });
    expect(quick.stretched).toBe(true);
    expect(quick.ends[0]! * quick.duration).toBeCloseTo(1000);
    expect(traceTimeAt(quick, quick.ends[0]! / 2)).toBeCloseTo(0.05);
    expect(traceTimeAt(quick, 1)).toBe(50);
  });
});

describe('the player', () => {
  test('starts to play when the first trace arrives, and shows a later trace after the end of the round', () => {
    const newest = signal<PlayedRound | null>(null);
    const player = createRingPlayer(newest, options(true));
    expect(player.playing.value).toBe(false);
    newest.value = stageOf(2, 1);
    expect(player.playing.value).toBe(true);
    advance(2000);
    expect(player.position.value).toBeGreaterThan(0.2);
    newest.value = stageOf(2, 9);
    expect(player.round.value!.trace.step).toBe(1);
    advance(6000);
    expect(player.round.value!.trace.step).toBe(9);
    player.dispose();
  });

  test('stops at the position that the user chooses', () => {
    const player = createRingPlayer(signal<PlayedRound | null>(stageOf(3)), options(true));
    player.seek(0.5);
    advance(1000);
    expect(player.position.value).toBe(0.5);
    expect(player.playing.value).toBe(false);
    player.dispose();
  });

  test('immediately shows the ranks of a new world size, and stops when there is no longer a trace', () => {
    const newest = signal<PlayedRound | null>(stageOf(3));
    const player = createRingPlayer(newest, options(true));
    newest.value = stageOf(4);
    expect(player.frame.value!.cells).toHaveLength(4);
    newest.value = null;
    expect(player.frame.value).toBeNull();
    expect(player.playing.value).toBe(false);
    player.dispose();
  });

  test('shows each new trace until the user presses a button of the player, and then keeps the shown trace', () => {
    const newest = signal<PlayedRound | null>(stageOf(3, 1));
    const player = createRingPlayer(newest, options(false));
    newest.value = stageOf(3, 2);
    expect(player.round.value!.trace.step).toBe(2);
    player.stepBy(1);
    newest.value = stageOf(3, 3);
    expect(player.round.value!.trace.step).toBe(2);
    player.dispose();
  });

  test('plays again in the next run, unless the user has paused', () => {
    const newest = signal<PlayedRound | null>(stageOf(3));
    const player = createRingPlayer(newest, options(true));
    newest.value = null;
    newest.value = stageOf(3, 5);
    expect(player.playing.value).toBe(true);
    player.pause();
    newest.value = null;
    newest.value = stageOf(3, 6);
    expect(player.playing.value).toBe(false);
    player.dispose();
  });
});

describe('a position in a round', () => {
  test('is converted to a number of ring steps and back', () => {
    expect([0, 1, 2].map((steps) => playbackPositionAfterSteps(LINE, steps))).toEqual([0, LINE.ends[0], 1]);
    fc.assert(
      fc.property(fc.double({ min: 0, max: 2, noNaN: true }), (steps) => {
        expect(stepsDoneAtPosition(LINE, playbackPositionAfterSteps(LINE, steps))).toBeCloseTo(steps, 9);
      }),
    );
  });
});

function startOf(n: number, fields: Partial<PlayerOptions> = {}): RingPlayer {
  return createRingPlayer(signal<PlayedRound | null>(stageOf(n)), { ...options(false), ...fields });
}

describe('showing a ring step', () => {
  test('plays until the ring step is done, then stops', () => {
    const player = startOf(4);
    for (const completed of [1, 2, 6]) {
      player.showStep(completed);
      expect(player.playing.value).toBe(true);
      advance(20_000);
      expect(player.playing.value).toBe(false);
      expect(player.frame.value).toMatchObject({ completed, flights: [] });
    }
    player.dispose();
  });

  test('jumps to the ring step without playing if the step is in the past, or if the user wants less motion', () => {
    const player = startOf(4);
    player.seek(1);
    player.showStep(2);
    expect(player.frame.value!.completed).toBe(2);
    const still = startOf(4, { reducedMotion: signal(true) });
    still.showStep(5);
    expect(still.frame.value!.completed).toBe(5);
    expect(still.playing.value).toBe(false);
    player.dispose();
    still.dispose();
  });

  test('does not stop the player at the ring step if the user has pressed pause and play in between', () => {
    const player = startOf(4);
    player.showStep(3);
    player.toggle();
    player.play();
    advance(20_000);
    expect(player.playing.value).toBe(true);
    player.dispose();
  });
});

test('the player stays at its ring step when the trace of this round gets more hops', () => {
  const first = stageOf(3);
  const newest = signal<PlayedRound | null>({
    ...first,
    trace: { ...first.trace, hops: first.trace.hops.slice(0, 2) },
  });
  const player = createRingPlayer(newest, options(false));
  player.showStep(2);
  advance(20_000);
  newest.value = { ...first, numbers: [[1], [2], [3]] };
  expect(player.round.value).toBe(newest.value);
  expect(player.frame.value).toMatchObject({ completed: 2, flights: [] });
  player.restart();
  expect(player.frame.value).toMatchObject({ completed: 0, flights: [] });
  player.dispose();
});

test.each(ALL_REDUCE_NAMES)(
  'a position of %s shows the same frame, whether it is reached by playing or with the slider',
  (algorithm) => {
    const action = fc.oneof(
      fc.record({ kind: fc.constant('pass' as const), ms: fc.integer({ min: 50, max: 3000 }) }),
      fc.record({ kind: fc.constant('seek' as const), to: fc.double({ min: 0, max: 1, noNaN: true }) }),
      fc.record({ kind: fc.constant('show' as const), share: fc.double({ min: 0, max: 1, noNaN: true }) }),
      fc.record({ kind: fc.constant('step' as const), direction: fc.constantFrom(1 as const, -1 as const) }),
      fc.record({ kind: fc.constant('speed' as const), speed: fc.constantFrom(0.125, 0.5, 1, 3, 8) }),
      fc.record({ kind: fc.constantFrom('toggle' as const, 'restart' as const) }),
    );
    const sizes = [2, 3, 4, 5, 6, 8, 9].filter((n) => whyAlgorithmCannotRun(algorithm, n) === null);
    const worlds = fc.record({ n: fc.constantFrom(...sizes), reduced: fc.boolean() });
    fc.assert(
      fc.property(worlds, fc.array(action, { maxLength: 25 }), ({ n, reduced }, actions) => {
        const stage = stageOf(n, 0, algorithm);
        const { steps } = allReduceSteps(algorithm, n);
        const reducedMotion = signal(reduced);
        const player = createRingPlayer(signal<PlayedRound | null>(stage), { ...options(true), reducedMotion });
        const scrubbed = createRingPlayer(signal<PlayedRound | null>(stage), options(false));
        for (const one of actions) {
          if (one.kind === 'pass') advance(one.ms);
          else if (one.kind === 'seek') player.seek(one.to);
          else if (one.kind === 'show') player.showStep(Math.round(one.share * steps.length));
          else if (one.kind === 'step') player.stepBy(one.direction);
          else if (one.kind === 'speed') player.speed.value = one.speed;
          else player[one.kind]();
          const place = player.position.value;
          scrubbed.seek(place);
          expect(player.frame.value).toEqual(scrubbed.frame.value);
          const plan = planPlaybackPacing(traceTimelineOf(stage.trace, allReduceSteps(algorithm, n)));
          expect(player.frame.value).toEqual(ringFrameAt(stage.trace, n, traceTimeAt(plan, place)));
        }
        // The picture does not change.
        const seen = player.frame.value;
        player.pause();
        expect(player.frame.value).toEqual(seen);
        player.dispose();
        scrubbed.dispose();
      }),
    );
  },
);
