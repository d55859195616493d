/**
 * Computes what the lesson shows about a plan: the plan up to a tick, the micro-batches that stages
 * keep, and the squares in which ranks wait; pure.
 */
import {
  gpipe,
  oneForwardOneBackward,
  type ComputedPassCounts,
  type PipelinePlan,
  type StagePass,
  type TimedStagePass,
} from '../../../parallel/pipeline/schedules.ts';
import type { PIPELINE_SCHEDULE_NAMES } from '../../../spec/pipeline.ts';

/** Minimum, default and maximum of each setting of the lesson. */
export const STAGE_BOUNDS = [2, 3, 5] as const;
export const MICRO_BATCH_BOUNDS = [1, 4, 8] as const;

export interface LessonPipelineSize {
  stages: number;
  microBatches: number;
}

export type PipelineScheduleName = (typeof PIPELINE_SCHEDULE_NAMES)[number];

export function lessonPipelinePlan(
  schedule: PipelineScheduleName,
  { stages, microBatches }: LessonPipelineSize,
): PipelinePlan {
  return (schedule === 'gpipe' ? gpipe : oneForwardOneBackward)(stages, microBatches);
}

/** Returns the part of the plan before `tick`. */
export function pipelinePlanUntil(plan: PipelinePlan, tick: number): PipelinePlan {
  return { ...plan, passes: plan.passes.map((own) => own.filter((pass) => pass.tick < tick)), ticks: tick };
}

export function passAtTick({ passes }: PipelinePlan, rank: number, tick: number): StagePass | null {
  return passes[rank]!.find((pass) => pass.tick === tick) ?? null;
}

/** Returns how many passes of each kind the stages have computed. */
export function countComputedPasses({ passes }: PipelinePlan): ComputedPassCounts {
  const count = (kind: StagePass['kind']): number[] =>
    passes.map((own) => own.filter((pass) => pass.kind === kind).length);
  return { forward: count('forward'), backward: count('backward') };
}

export interface KeptMicroBatches {
  /** Micro-batches whose activations the stage keeps after the last tick. */
  now: number[];
  /** The largest number of micro-batches that the stage has kept at the same time. */
  most: number;
}

/** Returns the micro-batches whose activations each stage keeps until their backward pass. */
export function keptActivationsByStage({ passes }: PipelinePlan): KeptMicroBatches[] {
  return passes.map((own) => {
    let now: number[] = [];
    let most = 0;
    for (const { kind, microBatch } of own) {
      now = kind === 'forward' ? [...now, microBatch] : now.filter((one) => one !== microBatch);
      most = Math.max(most, now.length);
    }
    return { now, most };
  });
}

/**
 * Returns the number of squares in the grid of a plan, and the number of squares in which a rank
 * waits.
 */
export function countPlanSquares({ passes, ranks, ticks }: PipelinePlan): { all: number; waiting: number } {
  const all = ranks * ticks;
  return { all, waiting: all - passes.reduce((sum, own) => sum + own.length, 0) };
}

/** Returns the bubble of a pipeline by its formula: the share of time in which ranks wait. */
export function bubbleShare({ stages, microBatches }: LessonPipelineSize): number {
  return (stages - 1) / (microBatches + stages - 1);
}

/** Returns the time at which the last pass ends. */
export function endOfLastPass(timed: readonly (readonly TimedStagePass[])[]): number {
  return Math.max(...timed.flat().map((pass) => pass.end));
}

/** Returns the share of the time from 0 to `end` in which these ranks wait. */
export function waitingTimeShare(timed: readonly (readonly TimedStagePass[])[], end: number): number {
  const busy = timed.flat().reduce((sum, pass) => sum + pass.end - pass.start, 0);
  return 1 - busy / (end * timed.length);
}
