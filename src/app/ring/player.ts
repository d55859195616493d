/**
 * Plays traces of ring all-reduces, slowed down until eyes can follow; the ring, the grid and the caption are all drawn
 * from its one frame. At the end of a round it takes the newest trace there is. Every frame derives from (trace, t), so
 * scrubbing and stepping are exact.
 */
import { computed, effect, signal, type ReadonlySignal, type Signal } from '@preact/signals';
import { frameAt, timelineOf, type Frame, type Timeline } from './frameAt.ts';
import { nextStop, planWatch, snap, timeAt, type Watch } from './watch.ts';
import type { Trace } from '../view.ts';

/** What is being played. */
export interface Stage {
  trace: Trace;
  n: number;
}

export interface Player {
  readonly stage: ReadonlySignal<Stage | null>;
  readonly timeline: ReadonlySignal<Timeline | null>;
  readonly watch: ReadonlySignal<Watch | null>;
  readonly frame: ReadonlySignal<Frame | null>;
  /** 0 .. 1 through the round, as it is watched. */
  readonly position: ReadonlySignal<number>;
  readonly playing: ReadonlySignal<boolean>;
  /** How many rounds in the usual round's time. */
  readonly speed: Signal<number>;
  play(): void;
  pause(): void;
  toggle(): void;
  /** Pauses at a place, 0 .. 1. */
  seek(position: number): void;
  /** Pauses at the end of the next (+1) or the last (-1) ring step. */
  stepBy(direction: 1 | -1): void;
  dispose(): void;
}

/** The picture stands still before and after a round, milliseconds: where things start, and where they end. */
const HOLD_BEFORE_MS = 700;
const HOLD_AFTER_MS = 1400;
/** Between two pictures, milliseconds: thirty a second are smooth enough, and leave the processor to the training. */
const FRAME_MS = 33;
/** The same where the processor itself computes, and paints: enough to follow. */
const THRIFTY_FRAME_MS = 100;
/** Longest time one picture may count for: a tab that was hidden goes on where it was. */
const LONGEST_FRAME_MS = 250;

export interface PlayerOptions {
  /** Whether the first trace plays by itself. */
  autoplay: boolean;
  /** Whether to jump from ring step to ring step. */
  reducedMotion: ReadonlySignal<boolean>;
  /** Whether to paint less often, because what paints also trains. */
  thrifty: ReadonlySignal<boolean>;
}

/** @param newest the newest trace, read whenever a round ends, and followed while nothing plays. */
export function createPlayer(newest: ReadonlySignal<Stage | null>, options: PlayerOptions): Player {
  const stage = signal<Stage | null>(null);
  const playing = signal(false);
  const speed = signal(1);
  /** Milliseconds of watching at speed 1, holds included; the one moving part. */
  const clock = signal(0);
  const timeline = computed(() => (stage.value === null ? null : timelineOf(stage.value.trace, stage.value.n)));
  const watch = computed(() => (timeline.value === null ? null : planWatch(timeline.value)));
  const position = computed(() => {
    const plan = watch.value;
    if (plan === null) return 0;
    const running = Math.min(1, Math.max(0, (clock.value - HOLD_BEFORE_MS) / plan.duration));
    return playing.value && options.reducedMotion.value ? snap(plan, running) : running;
  });
  const frame = computed(() => {
    const on = stage.value;
    const plan = watch.value;
    return on === null || plan === null ? null : frameAt(on.trace, on.n, timeAt(plan, position.value));
  });

  /** What the user last asked for; nothing to play is no reason to forget it. */
  let wanted = options.autoplay;
  let animation = 0;
  let last = 0;
  const tick = (now: number): void => {
    animation = requestAnimationFrame(tick);
    // A little less, or a picture that comes a hair early would cost a whole one.
    if (now - last < (options.thrifty.peek() ? THRIFTY_FRAME_MS : FRAME_MS) - 4) return;
    const passed = Math.min(LONGEST_FRAME_MS, now - last) * speed.peek();
    last = now;
    const next = clock.peek() + passed;
    if (next < HOLD_BEFORE_MS + (watch.peek()?.duration ?? 0) + HOLD_AFTER_MS) clock.value = next;
    else begin(newest.peek());
  };
  const begin = (next: Stage | null): void => {
    stage.value = next;
    clock.value = 0;
  };
  const run = (): void => {
    if (playing.peek() || stage.peek() === null) return;
    if (position.peek() >= 1) begin(newest.peek() ?? stage.peek());
    playing.value = true;
    last = performance.now();
    animation = requestAnimationFrame(tick);
  };
  const halt = (): void => {
    playing.value = false;
    cancelAnimationFrame(animation);
  };
  const play = (): void => {
    wanted = true;
    run();
  };
  const rest = (): void => {
    wanted = false;
    halt();
  };
  const seek = (to: number): void => {
    rest();
    clock.value = HOLD_BEFORE_MS + Math.min(1, Math.max(0, to)) * (watch.peek()?.duration ?? 0);
  };

  const stopFollowing = effect(() => {
    const next = newest.value;
    const on = stage.peek();
    // Another world (or none): what is on stage is of ranks that are not there any more.
    const stale = next === null || on === null || next.n !== on.n;
    // Untouched, a player at rest shows the newest beginning.
    const untouched = !playing.peek() && clock.peek() === 0;
    if (stale || untouched) begin(next);
    if (next === null) halt();
    else if (stale && wanted) run();
  });

  return {
    stage,
    timeline,
    watch,
    frame,
    position,
    playing,
    speed,
    play,
    pause: rest,
    toggle: () => (playing.peek() ? rest() : play()),
    seek,
    stepBy: (direction) => {
      const plan = watch.peek();
      if (plan !== null) seek(nextStop(plan, position.peek(), direction));
    },
    dispose: () => {
      halt();
      stopFollowing();
    },
  };
}
