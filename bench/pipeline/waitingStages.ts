/**
 * Runs in a rank's worker: stages that wait instead of computing. All tabs of this machine share
 * its cores, so stages that compute slow each other down. A stage that waits takes the same time as
 * if each tab had a machine of its own. Plan, executor, messages and links are those of a training
 * run.
 */
import * as tf from '@tensorflow/tfjs';
import { StageBoundary } from '../../src/parallel/pipeline/boundary.ts';
import { runPipelinePlan } from '../../src/parallel/pipeline/runPlan.ts';
import { gpipe, oneForwardOneBackward, type TimedStagePass } from '../../src/parallel/pipeline/schedules.ts';
import type { PIPELINE_SCHEDULE_NAMES } from '../../src/spec/pipeline.ts';
import { systemClock, EventLoopYielder } from '../../src/util/clock.ts';
import type { WorkerRank } from '../world/rank.ts';

export type Schedule = (typeof PIPELINE_SCHEDULE_NAMES)[number];
export const SCHEDULES = { gpipe, '1f1b': oneForwardOneBackward } as const satisfies Record<Schedule, unknown>;

/** Milliseconds of a pass. It is long, because messages take longer while other programs run. */
export const PASS_MS = 400;
/** Measured steps. A step before them, whose passes do not wait, is not measured. */
export const STEPS = 3;
/** Shape of the value of a micro-batch between two stages: 64 KiB. */
const SHAPE = [1, 128, 128];

/** A step of one rank, in milliseconds of the machine's clock. */
export interface WaitingStep {
  /** When all ranks began the step, and when this rank's values had been received. */
  start: number;
  end: number;
  passes: TimedStagePass[];
}

const TIMEOUT_MS = 60_000;
const YIELD_MS = 4;

/** Resolves with the steps of this rank. */
export async function waitingStages(
  { group }: WorkerRank,
  { schedule, microBatches }: { schedule: Schedule; microBatches: number },
): Promise<WaitingStep[]> {
  await tf.setBackend('cpu');
  const plan = SCHEDULES[schedule](group.worldSize, microBatches);
  const boundary = new StageBoundary(group, 'fp32', TIMEOUT_MS);
  const toMachine = performance.timeOrigin;
  let waitMs = 0;
  /** Waits, and returns a value unless there is no stage that would receive it. */
  const pass = async (input: readonly tf.Tensor[] | null, isEnd: boolean): Promise<tf.Tensor[] | null> => {
    tf.dispose([...(input ?? [])]);
    await new Promise<void>((resolve) => systemClock.after(waitMs, resolve));
    return isEnd ? null : [tf.zeros(SHAPE)];
  };
  const taken: WaitingStep[] = [];
  try {
    for (let step = 0; step <= STEPS; step++) {
      await group.barrier();
      const start = systemClock.now();
      const passes = await runPipelinePlan({
        plan,
        rank: group.rank,
        boundary,
        clock: systemClock,
        yielder: new EventLoopYielder(systemClock, YIELD_MS),
        shapesBefore: () => ({ value: SHAPE, padding: null }),
        forward: (stage, _, x) => pass(x, stage === plan.stages - 1),
        backward: (stage, _, dy) => pass(dy, stage === 0),
      });
      const end = systemClock.now();
      const timed = passes.map((each) => ({ ...each, start: toMachine + each.start, end: toMachine + each.end }));
      waitMs = PASS_MS;
      if (step > 0) taken.push({ start: toMachine + start, end: toMachine + end, passes: timed });
    }
    return taken;
  } finally {
    boundary.dispose();
  }
}
