/** Measures the time in which stages wait, in real tabs whose passes have equal lengths. */
import { idleShare, timePlan, type TimedPass } from '../../src/parallel/pipeline/schedules.ts';
import { median } from '../../src/util/statistics.ts';
import type { World } from '../world/world.ts';
import { SCHEDULES, type Schedule } from './schedules.ts';
import type { WaitingStep } from './waitingStages.ts';

/** Milliseconds of a pass. It is long, because messages take longer while other programs run. */
export const PASS_MS = 400;
/** The shape of a value between stages: 64 KiB. */
export const VALUE_SHAPE = [1, 128, 128] as const;
const STEPS = 3;

export interface IdleRow {
  schedule: Schedule;
  microBatches: number;
  /** Share of time in which ranks wait: the median of the measured steps, and (S-1)/(M+S-1). */
  measured: number;
  plan: number;
  /** Median milliseconds for which a value travels to a rank that waits for it. */
  transferMs: number;
  /** The share of the plan if every value travels for so long. */
  withTransfer: number;
  /** Median milliseconds of a step, and those of the plan with passes of equal length. */
  stepMs: number;
  planMs: number;
}

/** Passes by rank, in milliseconds since the step began. */
export interface Timeline {
  measured: TimedPass[][];
  plan: TimedPass[][];
}

export async function measureIdle(
  world: World,
  schedule: Schedule,
  microBatches: number,
): Promise<{ row: IdleRow; timeline: Timeline }> {
  const plan = SCHEDULES[schedule](world.size, microBatches);
  const args = { schedule, microBatches, passMs: PASS_MS, shape: VALUE_SHAPE, steps: STEPS };
  const ranks = await world.run('waitingStages', args);
  const steps = Array.from({ length: STEPS }, (_, step) => ranks.map((own) => own[step]!));
  const transferMs = median(steps.flatMap((own) => transfersOf(timelineOf(own), plan.stages)));
  const delayed = timePlan(
    plan,
    () => PASS_MS,
    () => transferMs,
  );
  const row = {
    schedule,
    microBatches,
    measured: median(steps.map(shareOf)),
    plan: idleShare(plan),
    transferMs,
    withTransfer: shareOf(delayed.map((passes) => ({ start: 0, end: lastEnd(delayed), passes }))),
    stepMs: median(steps.map(lengthOf)),
    planMs: plan.ticks * PASS_MS,
  };
  return { row, timeline: { measured: timelineOf(steps[0]!), plan: timePlan(plan, () => PASS_MS) } };
}

/** Returns the share of a step in which ranks computed nothing, as in `RunResult.pipeline.idle`. */
export function shareOf(ranks: readonly WaitingStep[]): number {
  const busy = ranks.flatMap(({ passes }) => passes).reduce((sum, { start, end }) => sum + end - start, 0);
  return 1 - busy / (lengthOf(ranks) * ranks.length);
}

function lengthOf(ranks: readonly WaitingStep[]): number {
  return Math.max(...ranks.map(({ start, end }) => end - start));
}

function lastEnd(ranks: readonly (readonly TimedPass[])[]): number {
  return Math.max(...ranks.flat().map(({ end }) => end));
}

/**
 * Returns the times from the end of a pass to the start of the pass on another rank that waited for
 * its result.
 *
 * @param ranks each has one stage.
 */
export function transfersOf(ranks: readonly (readonly TimedPass[])[], stages: number): number[] {
  return ranks.flatMap((passes, rank) =>
    passes.flatMap(({ kind, microBatch, start }, i) => {
      const source = kind === 'forward' ? rank - 1 : rank + 1;
      if (source < 0 || source >= stages) return [];
      const sent = ranks[source]!.find((pass) => pass.kind === kind && pass.microBatch === microBatch)!.end;
      const freeAt = passes[i - 1]?.end ?? 0;
      return sent > freeAt ? [start - sent] : [];
    }),
  );
}

/** Returns the passes with times since the first rank began the step. */
export function timelineOf(ranks: readonly WaitingStep[]): TimedPass[][] {
  const since = Math.min(...ranks.map(({ start }) => start));
  return ranks.map(({ passes }) =>
    passes.map((pass) => ({ ...pass, start: pass.start - since, end: pass.end - since })),
  );
}
