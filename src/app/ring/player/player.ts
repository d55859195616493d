/**
 * Plays traces of all-reduces in slow motion. The ring, the grid and the caption are all drawn from
 * the frame of the player. At the end of a round, the player continues with the newest trace. A
 * frame depends only on the trace, n and the time, so moving the slider and stepping are exact.
 */
import { computed, signal, type ReadonlySignal, type Signal } from '@preact/signals';
import {
  ringCellsAfter,
  completedPlanStepsAt,
  ringFrameFromTimeline,
  traceTimelineOf,
  type RingFrame,
  type KnownRingCells,
  type TraceTimeline,
} from '../frameAt.ts';
import { allReduceSteps } from '../../../collectives/plans/planSteps.ts';
import { createPlayback, type Playback, type PlayerOptions } from './playback.ts';
import type { AllReduceTraceRecord } from '../../../protocol/stepTrace.ts';

/** A trace of one round, which the player plays. */
export interface PlayedRound {
  trace: AllReduceTraceRecord;
  n: number;
  /**
   * The numbers, if there are few enough to show. `numbers[rank]` is the vector of that rank before
   * the all-reduce. All vectors have the same length.
   */
  numbers?: readonly (readonly number[])[];
}

/** The chunk that the user points at in the ring or in the grid. */
export interface PickedChunk {
  chunk: number;
  /** The rank whose copy is picked; `null` if the travelling chunk is picked. */
  rank: number | null;
  /**
   * The rank whose transfers are picked, whichever chunks it sends. On a ring, this is `null`: a
   * chunk is on only one edge at a time, so the chunk itself is picked and followed from edge to
   * edge.
   */
  sender: number | null;
}

export interface RingPlayer extends Playback {
  readonly round: ReadonlySignal<PlayedRound | null>;
  readonly timeline: ReadonlySignal<TraceTimeline | null>;
  readonly frame: ReadonlySignal<RingFrame | null>;
  /** The chunk selected with the pointer or the keys. The views set it. */
  readonly picked: Signal<PickedChunk | null>;
}

/**
 * @param newest see {@link createPlayback}. The newest trace replaces the current round immediately
 *   if it is a newer version of this round (same step, bucket, world size and algorithm), or if its
 *   world size or algorithm differs.
 */
export function createRingPlayer(newest: ReadonlySignal<PlayedRound | null>, options: PlayerOptions): RingPlayer {
  const round = signal<PlayedRound | null>(null);
  const picked = signal<PickedChunk | null>(null);
  /** Identifies the plan, which depends on the algorithm and the world size only. */
  const played = computed(() => (round.value === null ? null : `${round.value.trace.algorithm} ${round.value.n}`));
  const plan = computed(() => {
    if (played.value === null) return null;
    const { trace, n } = round.peek()!;
    return allReduceSteps(trace.algorithm, n);
  });
  const timeline = computed(() =>
    round.value === null || plan.value === null ? null : traceTimelineOf(round.value.trace, plan.value),
  );
  const onstale = (): void => void (picked.value = null);
  const playback = createPlayback(newest, { round, timeline, isSameRound, isSamePlan, onstale }, options);
  const { time } = playback;
  const completed = computed(() => (timeline.value === null ? 0 : completedPlanStepsAt(timeline.value, time.value)));
  // The cells are computed separately from `frame`, because they change only once in each step.
  let known: KnownRingCells | null = null;
  const cells = computed(() => {
    if (plan.value === null) return [];
    known = {
      plan: plan.value,
      completed: completed.value,
      cells: ringCellsAfter(plan.value, completed.value, known),
    };
    return known.cells;
  });
  const frame = computed(() =>
    timeline.value === null || plan.value === null
      ? null
      : ringFrameFromTimeline(timeline.value, plan.value, time.value, cells.value),
  );
  return { ...playback, round, timeline, frame, picked };
}

function isSameRound(a: PlayedRound, b: PlayedRound): boolean {
  return isSamePlan(a, b) && a.trace.step === b.trace.step && a.trace.bucket === b.trace.bucket;
}

function isSamePlan(a: PlayedRound, b: PlayedRound): boolean {
  return a.n === b.n && a.trace.algorithm === b.trace.algorithm;
}
