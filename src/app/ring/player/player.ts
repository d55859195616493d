/**
 * Plays traces of ring all-reduces in slow motion; the ring, the grid and the caption are drawn
 * from its one frame. At the end of a round it plays the newest trace. Every frame derives from
 * (trace, n, t), so scrubbing and stepping are exact.
 */
import { batch, computed, effect, signal, type ReadonlySignal, type Signal } from '@preact/signals';
import { cellsAfter, completedAt, frameOf, timelineOf, type Frame, type Timeline } from '../frameAt.ts';
import { nextStop, planPacing, positionOf, snap, stepsAt, timeAt, type Pacing } from './pacing.ts';
import type { RecordedTrace } from '../../../protocol/stepTrace.ts';

/** What is played. */
export interface Stage {
  trace: RecordedTrace;
  n: number;
  /**
   * The numbers, if there are few enough to show: `numbers[rank]` is that rank's own vector before
   * the all-reduce, all of one length.
   */
  numbers?: readonly (readonly number[])[];
}

/** The chunk that is picked in the ring and in the grid. */
export interface Picked {
  chunk: number;
  /** The rank whose copy is picked; `null`: the travelling one. */
  rank: number | null;
}

export interface Player {
  readonly stage: ReadonlySignal<Stage | null>;
  readonly timeline: ReadonlySignal<Timeline | null>;
  readonly pacing: ReadonlySignal<Pacing | null>;
  readonly frame: ReadonlySignal<Frame | null>;
  /** 0 .. 1 through the round, in played time. */
  readonly position: ReadonlySignal<number>;
  readonly playing: ReadonlySignal<boolean>;
  /** Speed, relative to the usual one. */
  readonly speed: Signal<number>;
  /** The chunk under the pointer or the keys; set by the views. */
  readonly picked: Signal<Picked | null>;
  play(): void;
  pause(): void;
  toggle(): void;
  /** Restarts with the newest trace; keeps playing if it played. */
  restart(): void;
  /** Pauses at a place, 0 .. 1. */
  seek(position: number): void;
  /** Pauses at the end of the next (+1) or the last (-1) ring step. */
  stepBy(direction: 1 | -1): void;
  /**
   * Plays until `completed` ring steps are done, and rests there. Jumps if it is beyond, or with
   * less motion.
   */
  showStep(completed: number): void;
  dispose(): void;
}

/** Time of the still picture before and after a round, milliseconds. */
const HOLD_BEFORE_MS = 700;
const HOLD_AFTER_MS = 1400;
/**
 * Time between two pictures, milliseconds: thirty a second are smooth and leave the processor to
 * the training.
 */
const FRAME_MS = 33;
/** The same if the processor also trains. */
const THRIFTY_FRAME_MS = 100;
/** Longest time that one picture counts for: a tab that was hidden continues where it was. */
const LONGEST_FRAME_MS = 250;

export interface PlayerOptions {
  /** Whether the first trace plays by itself. */
  autoplay: boolean;
  /** Whether to jump between ring steps. */
  reducedMotion: ReadonlySignal<boolean>;
  /** Whether to paint less often, as the processor also trains. */
  thrifty: ReadonlySignal<boolean>;
}

/**
 * @param newest the newest trace, read at the end of each round, and followed while nothing plays.
 *   A newer version of the round that is played (same step, bucket and world size) replaces it at
 *   once.
 */
export function createPlayer(newest: ReadonlySignal<Stage | null>, options: PlayerOptions): Player {
  const stage = signal<Stage | null>(null);
  const playing = signal(false);
  const speed = signal(1);
  const picked = signal<Picked | null>(null);
  /**
   * The only moving value: `position`, but below 0 and beyond 1 while the picture stands still
   * before and after the round.
   */
  const place = signal(0);
  const timeline = computed(() => (stage.value === null ? null : timelineOf(stage.value.trace, stage.value.n)));
  const pacing = computed(() => (timeline.value === null ? null : planPacing(timeline.value)));
  const position = computed(() => {
    const running = Math.min(1, Math.max(0, place.value));
    if (pacing.value === null) return 0;
    return playing.value && options.reducedMotion.value ? snap(pacing.value, running) : running;
  });
  const time = computed(() => (pacing.value === null ? 0 : timeAt(pacing.value, position.value)));
  const completed = computed(() => (timeline.value === null ? 0 : completedAt(timeline.value, time.value)));
  // Separate from the frame: n x n cells change with the ring step only.
  const cells = computed(() => (stage.value === null ? [] : cellsAfter(stage.value.n, completed.value)));
  const frame = computed(() =>
    timeline.value === null || stage.value === null
      ? null
      : frameOf(timeline.value, stage.value.n, time.value, cells.value),
  );

  /** The user's last choice, kept while nothing can play. */
  let wanted = options.autoplay;
  /** Ring steps after which to rest, instead of playing on. */
  let goal: number | null = null;
  let animation = 0;
  let last = 0;
  const tick = (now: number): void => {
    animation = requestAnimationFrame(tick);
    // A little less, or a picture that comes slightly early would cost a whole one.
    if (now - last < (options.thrifty.peek() ? THRIFTY_FRAME_MS : FRAME_MS) - 4) return;
    const passed = Math.min(LONGEST_FRAME_MS, now - last) * speed.peek();
    last = now;
    const plan = pacing.peek();
    if (plan === null) return;
    const next = place.peek() + passed / plan.duration;
    const end = goal === null ? 1 + HOLD_AFTER_MS / plan.duration : positionOf(plan, goal);
    if (next < end) place.value = next;
    else if (goal === null) begin(newest.peek());
    else seek(end);
  };
  const begin = (next: Stage | null): void =>
    batch(() => {
      stage.value = next;
      place.value = pacing.peek() === null ? 0 : -HOLD_BEFORE_MS / pacing.peek()!.duration;
    });
  /** A newer version of the round keeps its position. */
  const replace = (next: Stage): void =>
    batch(() => {
      const done = stepsAt(pacing.peek()!, place.peek());
      const isWithin = place.peek() >= 0 && place.peek() <= 1;
      stage.value = next;
      if (isWithin) place.value = positionOf(pacing.peek()!, done);
    });
  const run = (): void => {
    if (playing.peek() || stage.peek() === null) return;
    if (position.peek() >= 1) begin(newest.peek() ?? stage.peek());
    playing.value = true;
    last = performance.now();
    animation = requestAnimationFrame(tick);
  };
  const halt = (): void =>
    batch(() => {
      // The shown picture stays.
      if (playing.peek() && options.reducedMotion.peek()) place.value = position.peek();
      playing.value = false;
      goal = null;
      cancelAnimationFrame(animation);
    });
  const play = (): void => {
    wanted = true;
    run();
  };
  const rest = (): void => {
    wanted = false;
    halt();
  };
  const seek = (to: number): void =>
    batch(() => {
      rest();
      place.value = Math.min(1, Math.max(0, to));
    });

  const stopFollowing = effect(() => {
    const next = newest.value;
    const on = stage.peek();
    if (next !== null && on !== null && isSameRound(next, on)) {
      replace(next);
      return;
    }
    // Another world, or none: the played round belongs to ranks that are gone.
    const stale = next === null || on === null || next.n !== on.n;
    // A player at rest that nobody used shows the start of the newest round.
    const untouched = !playing.peek() && place.peek() < 0;
    if (next === null || (stale && goal !== null)) halt();
    if (stale) picked.value = null;
    if (stale || untouched) begin(next);
    if (next !== null && stale && wanted) run();
  });

  return {
    stage,
    timeline,
    pacing,
    frame,
    position,
    playing,
    speed,
    picked,
    play,
    pause: rest,
    toggle: () => (playing.peek() ? rest() : play()),
    restart: () => {
      goal = null;
      begin(newest.peek() ?? stage.peek());
    },
    seek,
    stepBy: (direction) => {
      const plan = pacing.peek();
      if (plan !== null) seek(nextStop(plan, position.peek(), direction));
    },
    showStep: (steps) => {
      const plan = pacing.peek();
      if (plan === null) return;
      const to = positionOf(plan, steps);
      const isJump = options.reducedMotion.peek() || position.peek() >= to;
      rest();
      if (isJump) seek(to);
      else {
        goal = steps;
        run();
      }
    },
    dispose: () => {
      halt();
      stopFollowing();
    },
  };
}

function isSameRound(a: Stage, b: Stage): boolean {
  return a.n === b.n && a.trace.step === b.trace.step && a.trace.bucket === b.trace.bucket;
}
