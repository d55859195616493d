/** Plays the plan of a pipeline, tick by tick. */
import { computed, signal, type ReadonlySignal } from '@preact/signals';
import { createPlayback, type Playback, type PlayerOptions } from '../ring/player/playback.ts';
import {
  pipelineFrameAt,
  pipelineReelOf,
  timelineOfPipelineReel,
  type PipelineFrame,
  type PipelineReel,
} from './frame.ts';
import { pipelinePlanOf, type PipelineShape } from './shape.ts';

export interface PipelinePlayer extends Playback {
  /** The plan on the screen; `null` before the first plan. */
  readonly reel: ReadonlySignal<PipelineReel | null>;
  readonly frame: ReadonlySignal<PipelineFrame | null>;
}

export function createPipelinePlayer(
  newest: ReadonlySignal<PipelineShape | null>,
  options: PlayerOptions,
): PipelinePlayer {
  const round = signal<PipelineShape | null>(null);
  const reel = computed(() => (round.value === null ? null : pipelineReelOf(pipelinePlanOf(round.value))));
  const timeline = computed(() => (reel.value === null ? null : timelineOfPipelineReel(reel.value)));
  const playback = createPlayback(newest, { round, timeline, isSameRound: () => false, isSamePlan }, options);
  const frame = computed(() => (reel.value === null ? null : pipelineFrameAt(reel.value, playback.time.value)));
  return { ...playback, reel, frame };
}

function isSamePlan(a: PipelineShape, b: PipelineShape): boolean {
  return a.ranks === b.ranks && a.microBatches === b.microBatches && a.schedule === b.schedule && a.ring === b.ring;
}
