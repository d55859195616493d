/**
 * Frames of a pipeline's plan: which rank computes which pass, and which values travel between
 * ranks. Times are ticks. A pass that is shown takes one tick; passes that take no time in the plan
 * are not shown. A frame depends only on the plan and the time, so the slider and single steps show
 * the same frames.
 */
import { clamp } from '../../util/clamp.ts';
import {
  rankOfStage,
  stageTakesTime,
  type PassKind,
  type PipelinePlan,
  type StagePass,
} from '../../parallel/pipeline/schedules.ts';
import type { PlayedStepTimes } from '../ring/player/pacing.ts';

/** A value between two stages on different ranks: an activation, or its gradient. */
interface Value {
  kind: PassKind;
  microBatch: number;
  from: number;
  to: number;
  /** The times at which the value leaves, has arrived, and is needed by the next pass. */
  leaves: number;
  arrives: number;
  needed: number;
}

export interface TravellingStageValue extends Pick<Value, 'kind' | 'microBatch' | 'from' | 'to'> {
  /**
   * How much of its way the value has travelled, 0 to 1. It is 1 if the value waits for its pass.
   */
  share: number;
}

export interface PipelineFrame {
  /** The current tick. At the end of the step, it is the number of ticks. */
  tick: number;
  /** The pass that each rank computes, or has computed in this tick; `null` if the rank waits. */
  passes: readonly (StagePass | null)[];
  /** Values that travel or wait for their pass. */
  values: readonly TravellingStageValue[];
  /** The number of micro-batches whose activations each rank keeps. */
  kept: readonly number[];
}

/** A plan with the values and passes from which its frames are computed. */
export interface PipelineReel {
  plan: PipelinePlan;
  values: readonly Value[];
  /** The pass of each rank in each tick. */
  passAt: readonly (readonly (StagePass | null)[])[];
}

/** A pass computes for this share of its tick. Then its result travels. */
const COMPUTES = 0.55;

export function pipelineReelOf(plan: PipelinePlan): PipelineReel {
  const ticks = new Map<string, number>();
  for (const { kind, stage, microBatch, tick } of plan.passes.flat()) ticks.set(keyOf(kind, stage, microBatch), tick);
  const values = plan.passes.flatMap((own, from) =>
    own.flatMap(({ kind, stage, microBatch, tick }): Value[] => {
      const next = kind === 'forward' ? stage + 1 : stage - 1;
      const needed = ticks.get(keyOf(kind, next, microBatch));
      const to = rankOfStage(plan, next);
      if (needed === undefined || to === from) return [];
      const value = { kind, microBatch, from, to };
      // In the plan of a ring, the first stage takes no time, so its values are ready long before
      // the next stage needs them. A value is drawn as if it left in the tick before it is needed.
      if (!stageTakesTime(plan, stage)) return [{ ...value, leaves: needed - 1 + COMPUTES, arrives: needed, needed }];
      const arrives = tick + 1;
      // In the plan of a ring, the backward passes of the first stage take no time, so they come
      // late. A value that waits for such a pass is not shown.
      return [{ ...value, leaves: tick + COMPUTES, arrives, needed: stageTakesTime(plan, next) ? needed : arrives }];
    }),
  );
  const passAt = Array.from({ length: plan.ticks }, (): (StagePass | null)[] =>
    Array.from({ length: plan.ranks }, () => null),
  );
  for (const [rank, own] of plan.passes.entries()) {
    for (const pass of own) if (stageTakesTime(plan, pass.stage)) passAt[pass.tick]![rank] = pass;
  }
  return { plan, values, passAt };
}

function keyOf(kind: PassKind, stage: number, microBatch: number): string {
  return `${kind}/${stage}/${microBatch}`;
}

export function timelineOfPipelineReel({ plan: { ticks } }: PipelineReel): PlayedStepTimes {
  const all = Array.from({ length: ticks }, (_, tick) => tick);
  return { leaves: all.map((tick) => tick + COMPUTES), arrives: all.map((tick) => tick + 1), duration: ticks };
}

/** @param time in ticks. */
export function pipelineFrameAt({ plan, values, passAt }: PipelineReel, time: number): PipelineFrame {
  const tick = clamp(Math.floor(time), 0, plan.ticks);
  const shown = values.flatMap(({ leaves, arrives, needed, ...value }): TravellingStageValue[] =>
    time >= leaves && time < needed ? [{ ...value, share: Math.min(1, (time - leaves) / (arrives - leaves)) }] : [],
  );
  const kept = plan.passes.map((own) =>
    own.reduce((sum, pass) => {
      if (pass.kind === 'forward') return pass.tick <= tick && tick < plan.ticks ? sum + 1 : sum;
      return pass.tick < tick && tick < plan.ticks ? sum - 1 : sum;
    }, 0),
  );
  return { tick, passes: passAt[tick] ?? passAt[0]!.map(() => null), values: shown, kept };
}
