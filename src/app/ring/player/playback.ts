/**
 * Plays anything that has steps, with position, speed, play and pause. A picture depends only on
 * the round and the time, so moving the slider and stepping are exact.
 */
import { clamp } from '../../../util/clamp.ts';
import { batch, computed, effect, signal, type ReadonlySignal, type Signal } from '@preact/signals';
import {
  nextStopPosition,
  planPlaybackPacing,
  playbackPositionAfterSteps,
  reducedMotionPosition,
  stepsDoneAtPosition,
  traceTimeAt,
  type PlaybackPacing,
  type PlayedStepTimes,
} from './pacing.ts';

export interface Playback {
  /** `null` if there is nothing to play. */
  readonly pacing: ReadonlySignal<PlaybackPacing | null>;
  /** The position, from 0 to 1. It advances evenly while the player plays. */
  readonly position: ReadonlySignal<number>;
  /** The time at the position, in the unit of the timeline. */
  readonly time: ReadonlySignal<number>;
  readonly playing: ReadonlySignal<boolean>;
  /** The speed, as a multiple of the default speed. */
  readonly speed: Signal<number>;
  play(): void;
  pause(): void;
  toggle(): void;
  /** Restarts with the newest round. If the player was playing, it continues to play. */
  restart(): void;
  /** Pauses at a position from 0 to 1. */
  seek(position: number): void;
  /** Pauses at the next stop (+1) or at the previous stop (-1), see `nextStopPosition`. */
  stepBy(direction: 1 | -1): void;
  /**
   * Plays until `completed` steps are done, then pauses. If the player is already past this point,
   * or if the user prefers reduced motion, it jumps there.
   */
  showStep(completed: number): void;
  dispose(): void;
}

/** Milliseconds for which the picture stands still before and after a round. */
const HOLD_BEFORE_MS = 700;
const HOLD_AFTER_MS = 1400;
/**
 * Milliseconds between two frames. Thirty frames a second look smooth, and leave time for the
 * processor to train.
 */
const FRAME_MS = 33;
/** Milliseconds between two frames if the processor also trains. */
const THRIFTY_FRAME_MS = 100;
/**
 * The longest time that one frame may advance the player, milliseconds. Without this limit, a tab
 * that was hidden would skip the time in which it was hidden.
 */
const LONGEST_FRAME_MS = 250;

export interface PlayerOptions {
  /** Whether the player starts by itself with the first round. */
  autoplay: boolean;
  /** Whether to jump from step to step instead of moving. */
  reducedMotion: ReadonlySignal<boolean>;
  /** Whether to paint less often, because the processor also trains. */
  thrifty: ReadonlySignal<boolean>;
}

/** The rounds that are played. */
export interface PlaybackRounds<Round> {
  /** The round on the screen; `null` before the first round. */
  round: Signal<Round | null>;
  /** Times of the steps of the round on the screen. */
  timeline: ReadonlySignal<PlayedStepTimes | null>;
  /** Whether round `a` is a newer version of round `b`. If so, `a` replaces `b` immediately. */
  isSameRound: (a: Round, b: Round) => boolean;
  /**
   * Whether round `a` may wait until round `b` has been played. If not, `a` replaces `b`
   * immediately.
   */
  isSamePlan: (a: Round, b: Round) => boolean;
  /** Called when a round with a different plan replaces the round on the screen. */
  onstale?: () => void;
}

/**
 * @param newest the newest round. A playing player begins to play it at the end of the current
 *   round. A paused player that nobody has used yet shows its start.
 */
export function createPlayback<Round>(
  newest: ReadonlySignal<Round | null>,
  { round, timeline, isSameRound, isSamePlan, onstale }: PlaybackRounds<Round>,
  options: PlayerOptions,
): Playback {
  const playing = signal(false);
  const speed = signal(1);
  /**
   * The value that increases while the player plays. It begins below 0 and ends above 1, so that
   * the picture stands still before and after a round. `position` is this value limited to 0 .. 1.
   */
  const place = signal(0);
  const pacing = computed(() => (timeline.value === null ? null : planPlaybackPacing(timeline.value)));
  const position = computed(() => {
    const running = clamp(place.value, 0, 1);
    if (pacing.value === null) return 0;
    return playing.value && options.reducedMotion.value ? reducedMotionPosition(pacing.value, running) : running;
  });
  const time = computed(() => (pacing.value === null ? 0 : traceTimeAt(pacing.value, position.value)));

  /** Whether the user wants to play. This choice is kept while there is nothing to play. */
  let wanted = options.autoplay;
  /** The number of steps after which to pause; `null` to continue playing. */
  let goal: number | null = null;
  let animation = 0;
  let last = 0;
  const tick = (now: number): void => {
    animation = requestAnimationFrame(tick);
    // The limit is 4 ms less than the period, so that a frame that comes slightly early is not
    // skipped.
    if (now - last < (options.thrifty.peek() ? THRIFTY_FRAME_MS : FRAME_MS) - 4) return;
    const passed = Math.min(LONGEST_FRAME_MS, now - last) * speed.peek();
    last = now;
    const pace = pacing.peek();
    if (pace === null) return;
    const next = place.peek() + passed / pace.duration;
    const end = goal === null ? 1 + HOLD_AFTER_MS / pace.duration : playbackPositionAfterSteps(pace, goal);
    if (next < end) place.value = next;
    else if (goal === null) begin(newest.peek());
    else seek(end);
  };
  const begin = (next: Round | null): void =>
    batch(() => {
      round.value = next;
      place.value = pacing.peek() === null ? 0 : -HOLD_BEFORE_MS / pacing.peek()!.duration;
    });
  /** Replaces the round by a newer version, at the same position. */
  const replace = (next: Round): void =>
    batch(() => {
      const done = stepsDoneAtPosition(pacing.peek()!, place.peek());
      const isWithin = place.peek() >= 0 && place.peek() <= 1;
      round.value = next;
      if (isWithin) place.value = playbackPositionAfterSteps(pacing.peek()!, done);
    });
  const run = (): void => {
    if (playing.peek() || round.peek() === null) return;
    if (position.peek() >= 1) begin(newest.peek() ?? round.peek());
    playing.value = true;
    last = performance.now();
    animation = requestAnimationFrame(tick);
  };
  const halt = (): void =>
    batch(() => {
      // With reduced motion, the shown position differs from `place`. The shown position is kept,
      // so that the picture does not move when the player stops.
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
      place.value = clamp(to, 0, 1);
    });

  const stopFollowing = effect(() => {
    const next = newest.value;
    const on = round.peek();
    if (next !== null && on !== null && isSameRound(next, on)) {
      replace(next);
      return;
    }
    // If there is no newest round, or if it has another plan, the round on the screen is from an
    // earlier generation.
    const stale = next === null || on === null || !isSamePlan(next, on);
    // A paused player that nobody has used shows the start of the newest round.
    const untouched = !playing.peek() && place.peek() < 0;
    if (next === null || (stale && goal !== null)) halt();
    if (stale) onstale?.();
    if (stale || untouched) begin(next);
    if (next !== null && stale && wanted) run();
  });

  return {
    pacing,
    position,
    time,
    playing,
    speed,
    play,
    pause: rest,
    toggle: () => (playing.peek() ? rest() : play()),
    restart: () => {
      goal = null;
      begin(newest.peek() ?? round.peek());
    },
    seek,
    stepBy: (direction) => {
      const pace = pacing.peek();
      if (pace !== null) seek(nextStopPosition(pace, position.peek(), direction));
    },
    showStep: (steps) => {
      const pace = pacing.peek();
      if (pace === null) return;
      const to = playbackPositionAfterSteps(pace, steps);
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
