/**
 * Plays traces of ring all-reduces, slowed down until eyes can follow; the ring, the grid and the caption are all drawn
 * from its one frame. At the end of a round it takes the newest trace there is. Every frame derives from (trace, t), so
 * scrubbing and stepping are exact.
 */
import { computed, effect, signal, type ReadonlySignal, type Signal } from '@preact/signals';
import { ringStepCount } from '../../collectives/ringPlan.ts';
import { frameAt, timelineOf, type Frame, type Timeline } from './frameAt.ts';
import type { Trace } from '../view.ts';

/** What is being played. */
export interface Stage {
  trace: Trace;
  n: number;
}

export interface Player {
  readonly stage: ReadonlySignal<Stage | null>;
  readonly timeline: ReadonlySignal<Timeline | null>;
  readonly frame: ReadonlySignal<Frame | null>;
  /** 0 .. 1 through the round. */
  readonly position: ReadonlySignal<number>;
  readonly playing: ReadonlySignal<boolean>;
  /** How many rounds in the usual round's time. */
  readonly speed: Signal<number>;
  /** How many times slower than it happened; `null` when nothing is on stage. */
  readonly slowdown: ReadonlySignal<number | null>;
  play(): void;
  pause(): void;
  toggle(): void;
  /** Pauses at a place, 0 .. 1. */
  seek(position: number): void;
  /** Pauses at the end of the next (+1) or the last (-1) ring step. */
  stepBy(direction: 1 | -1): void;
  dispose(): void;
}

/** A ring step takes about this long to watch, milliseconds … */
const WATCH_STEP_MS = 750;
/** … and a whole round between these. */
const SHORTEST_ROUND_MS = 4000;
const LONGEST_ROUND_MS = 20_000;
/** The picture stands still before and after a round, milliseconds: where things start, and where they end. */
const HOLD_BEFORE_MS = 700;
const HOLD_AFTER_MS = 1400;
/** Longest time one animation frame may count for: a tab that was hidden goes on where it was. */
const LONGEST_FRAME_MS = 100;

/**
 * @param newest the newest trace, read (and subscribed to) whenever a round ends or nothing is on stage.
 * @param autoplay whether the first trace plays by itself.
 * @param reducedMotion whether to jump from ring step to ring step.
 */
export function createPlayer(
  newest: ReadonlySignal<Stage | null>,
  autoplay: boolean,
  reducedMotion: ReadonlySignal<boolean>,
): Player {
  const stage = signal<Stage | null>(null);
  const playing = signal(false);
  const speed = signal(1);
  /** Milliseconds of watching at speed 1, holds included; the one moving part. */
  const clock = signal(0);
  const timeline = computed(() => (stage.value === null ? null : timelineOf(stage.value.trace, stage.value.n)));
  const roundMs = computed(() => (stage.value === null ? 0 : roundFor(stage.value.n)));
  const position = computed(() => {
    const running = Math.min(1, Math.max(0, (clock.value - HOLD_BEFORE_MS) / Math.max(1, roundMs.value)));
    const line = timeline.value;
    return line !== null && playing.value && reducedMotion.value ? snap(line, running) : running;
  });
  const frame = computed(() => {
    const on = stage.value;
    const line = timeline.value;
    return on === null || line === null ? null : frameAt(on.trace, on.n, position.value * line.duration);
  });
  const slowdown = computed(() => {
    const line = timeline.value;
    return line === null || line.duration <= 0 ? null : roundMs.value / speed.value / line.duration;
  });

  let animation = 0;
  let last = 0;
  const tick = (now: number): void => {
    animation = requestAnimationFrame(tick);
    const passed = Math.min(LONGEST_FRAME_MS, Math.max(0, now - last)) * speed.peek();
    last = now;
    const next = clock.peek() + passed;
    if (next < HOLD_BEFORE_MS + roundMs.peek() + HOLD_AFTER_MS) clock.value = next;
    else begin(newest.peek());
  };
  const begin = (next: Stage | null): void => {
    stage.value = next;
    clock.value = 0;
  };
  const play = (): void => {
    if (playing.peek() || stage.peek() === null) return;
    if (position.peek() >= 1) begin(newest.peek() ?? stage.peek());
    playing.value = true;
    last = performance.now();
    animation = requestAnimationFrame(tick);
  };
  const pause = (): void => {
    playing.value = false;
    cancelAnimationFrame(animation);
  };
  const seek = (to: number): void => {
    pause();
    clock.value = HOLD_BEFORE_MS + Math.min(1, Math.max(0, to)) * roundMs.peek();
  };
  const stepBy = (direction: 1 | -1): void => {
    const line = timeline.peek();
    if (line !== null) seek(nextStop(line, position.peek(), direction));
  };

  let started = false;
  const stopWatching = effect(() => {
    const next = newest.value;
    const on = stage.peek();
    // Another world (or none): what is on stage is of ranks that are not there any more.
    if (next === null || on === null || next.n !== on.n) {
      begin(next);
      if (next === null) pause();
      else if (autoplay && !started) {
        started = true;
        play();
      }
    }
  });

  return {
    stage,
    timeline,
    frame,
    position,
    playing,
    speed,
    slowdown,
    play,
    pause,
    toggle: () => (playing.peek() ? pause() : play()),
    seek,
    stepBy,
    dispose: () => {
      pause();
      stopWatching();
    },
  };
}

function roundFor(n: number): number {
  return Math.min(LONGEST_ROUND_MS, Math.max(SHORTEST_ROUND_MS, WATCH_STEP_MS * ringStepCount(n)));
}

/** The places worth stopping at: the start, the middle of each flight (something to see), the end. */
function stops(line: Timeline): number[] {
  if (line.duration <= 0) return [0, 1];
  const middles = line.leaves.map((leave, i) => (leave + line.arrives[i]!) / 2 / line.duration);
  return [0, ...middles, 1];
}

export function nextStop(line: Timeline, position: number, direction: 1 | -1): number {
  const all = stops(line);
  const far = 1e-6;
  if (direction > 0) return all.find((stop) => stop > position + far) ?? 1;
  return all.findLast((stop) => stop < position - far) ?? 0;
}

/** The last stop at or before `position`: discrete steps for those who asked for less motion. */
export function snap(line: Timeline, position: number): number {
  if (position >= 1) return 1;
  const index = line.arrives.findIndex((arrive) => arrive / Math.max(line.duration, Number.EPSILON) > position);
  return position <= 0 || index < 0 ? 0 : stops(line)[index + 1]!;
}
