/**
 * Schedules of pipeline parallelism as pure functions: which rank computes the forward or the
 * backward pass of which micro-batch, in which order. The executor runs the plan, property tests
 * check it, the cost model predicts its time, and the page draws it.
 *
 * - GPipe (Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline
 *   Parallelism", 2019): all forward passes, then all backward passes.
 * - 1F1B (Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", 2019;
 *   the variant with a flush after each step of "Memory-Efficient Pipeline-Parallel DNN Training",
 *   2021): a stage computes a backward pass as soon as it can. It takes the same time as GPipe, but
 *   a stage that k stages follow keeps the activations of at most k + 1 micro-batches.
 *
 * In a ring, the last stage is on rank 0 as well: S ranks have S + 1 stages. So the first and the
 * last layer may share their weights, as the embedding and the output layer of a language model do.
 * The first stage only looks up embeddings. Plans count no time for its passes: rank 0 computes
 * them in addition to its other passes. So a ring waits as long as a pipeline of S stages.
 *
 * The names GPipe and 1F1B and their meanings are those of torch.distributed.pipelining
 * (https://docs.pytorch.org/docs/stable/distributed.pipelining.html).
 */
import type { PIPELINE_SCHEDULE_NAMES } from '../../spec/pipeline.ts';
import { UsageError } from '../../util/errors.ts';

export type PassKind = 'forward' | 'backward';

/** A pass of one micro-batch through one stage. */
export interface MicroBatchPass {
  kind: PassKind;
  stage: number;
  microBatch: number;
}

export interface StagePass extends MicroBatchPass {
  /**
   * The time at which the pass runs: 0, 1, .. The number assumes that sending takes no time, and
   * that every pass of a stage that {@link stageTakesTime} takes one tick.
   */
  tick: number;
}

export interface PipelinePlan {
  ranks: number;
  /** Number of stages: `ranks`, or `ranks + 1` in a ring. */
  stages: number;
  microBatches: number;
  /** The passes of each rank, in the order in which the rank computes them. */
  passes: readonly (readonly StagePass[])[];
  /** Number of ticks of a step. */
  ticks: number;
}

/** For each kind and stage, the number of micro-batches whose pass has been computed. */
export type ComputedPassCounts = Record<PassKind, readonly number[]>;

export interface PipelineRingOptions {
  /** Whether rank 0 has the first and the last of `ranks + 1` stages. */
  ring?: boolean;
}

type ScheduleName = (typeof PIPELINE_SCHEDULE_NAMES)[number];

type PlanSize = Pick<PipelinePlan, 'ranks' | 'stages' | 'microBatches'>;

/** Returns the largest number of micro-batches whose activations a stage keeps. */
export function mostMicroBatchesInFlight(
  schedule: ScheduleName,
  { ranks, stages, microBatches }: PlanSize,
  stage: number,
): number {
  if (schedule === 'gpipe') return microBatches;
  // The first stage of a ring keeps the activations of twice as many micro-batches as the next
  // stage, so its backward passes can wait.
  const most = stageTakesTime({ ranks, stages }, stage) ? stages - stage : 2 * ranks;
  return Math.min(microBatches, most);
}

/**
 * Returns the plan of GPipe.
 *
 * @throws UsageError unless both numbers are whole and at least 1.
 */
export function gpipe(ranks: number, microBatches: number, options: PipelineRingOptions = {}): PipelinePlan {
  return planOf('gpipe', ranks, microBatches, options);
}

/**
 * Returns the plan of 1F1B.
 *
 * @throws UsageError unless both numbers are whole and at least 1.
 */
export function oneForwardOneBackward(
  ranks: number,
  microBatches: number,
  options: PipelineRingOptions = {},
): PipelinePlan {
  return planOf('1f1b', ranks, microBatches, options);
}

export function rankOfStage({ ranks }: Pick<PipelinePlan, 'ranks'>, stage: number): number {
  return stage % ranks;
}

/**
 * Whether plans count time for the passes of a stage. A ring's first stage is the only exception.
 */
export function stageTakesTime({ ranks, stages }: Pick<PipelinePlan, 'ranks' | 'stages'>, stage: number): boolean {
  return stage > 0 || stages === ranks;
}

/** Returns the stages of a rank: one, or two on rank 0 of a ring. */
export function stagesOfRank({ ranks, stages }: Pick<PipelinePlan, 'ranks' | 'stages'>, rank: number): number[] {
  return Array.from({ length: stages }, (_, stage) => stage).filter((stage) => stage % ranks === rank);
}

/**
 * Returns the share of time in which ranks wait, the bubble: (S - 1) / (M + S - 1) for S ranks and
 * M micro-batches.
 */
export function idleShare(plan: PipelinePlan): number {
  const busy = plan.passes.flat().filter(({ stage }) => stageTakesTime(plan, stage)).length;
  return 1 - busy / (plan.ticks * plan.ranks);
}

/** Times of a pass. `start` and `end` have the unit of the durations. */
export interface TimedStagePass extends StagePass {
  start: number;
  end: number;
}

/**
 * Returns when each pass of the plan runs, by rank. A pass starts when its rank is free and the
 * value from the neighbouring stage has arrived.
 *
 * @param durationOf duration of a pass.
 * @param transferOf time for which a value travels from a stage to the next or to the previous one.
 */
export function timePipelinePlan(
  { passes, ranks, stages }: Pick<PipelinePlan, 'passes' | 'ranks' | 'stages'>,
  durationOf: (pass: Pick<StagePass, 'kind' | 'stage'>) => number,
  transferOf: (kind: PassKind) => number = () => 0,
): TimedStagePass[][] {
  const timed = passes.map((): TimedStagePass[] => []);
  const ends = new Map<string, number>();
  const free = Array.from({ length: ranks }, () => 0);
  let left = passes.reduce((sum, own) => sum + own.length, 0);
  while (left > 0) {
    const before = left;
    for (const [rank, own] of passes.entries()) {
      for (let next = own[timed[rank]!.length]; next; next = own[timed[rank]!.length]) {
        const input = inputPassOf(next, stages);
        const arrival = input === null ? 0 : ends.get(keyOf(input));
        if (arrival === undefined) break;
        const travels = input !== null && input.stage !== next.stage && ranks > 1;
        const start = Math.max(free[rank]!, arrival + (travels ? transferOf(next.kind) : 0));
        const end = start + durationOf(next);
        timed[rank]!.push({ ...next, start, end });
        ends.set(keyOf(next), end);
        free[rank] = end;
        left -= 1;
      }
    }
    if (left === before) throw new UsageError('The plan cannot run: every rank waits for another one.');
  }
  return timed;
}

function planOf(
  schedule: ScheduleName,
  ranks: number,
  microBatches: number,
  { ring = false }: PipelineRingOptions,
): PipelinePlan {
  checkCount('stages', ranks);
  checkCount('microBatches', microBatches);
  const plan = { ranks, stages: ring ? ranks + 1 : ranks, microBatches };
  const passes = Array.from({ length: ranks }, (): StagePass[] => []);
  const computed = {
    forward: Array.from({ length: plan.stages }, () => 0),
    backward: Array.from({ length: plan.stages }, () => 0),
  };
  const compute = (pass: MicroBatchPass, rank: number, tick: number): void => {
    passes[rank]!.push({ ...pass, tick });
    computed[pass.kind][pass.stage]! += 1;
  };
  /**
   * Computes the passes of a ring's first stage after the passes of a tick, or before the first
   * tick. Forward passes run ahead. A backward pass waits until the next rank will need a forward
   * pass for which no room is left, or until rank 0 has nothing else to do. So rank 0 does not wait
   * for gradients.
   */
  const computeFirstStage = (tick: number, earlier: ComputedPassCounts): void => {
    const isLast = computed.backward.at(-1) === microBatches;
    for (;;) {
      const [forward, backward] = [computed.forward[0]!, computed.backward[0]!];
      const isNeeded = forward < microBatches && forward - earlier.forward[1]! <= 1;
      if (forward < microBatches && forward - backward < mostMicroBatchesInFlight(schedule, plan, 0)) {
        compute({ kind: 'forward', stage: 0, microBatch: forward }, 0, tick);
      } else if (backward < earlier.backward[1]! && (isNeeded || isLast)) {
        compute({ kind: 'backward', stage: 0, microBatch: backward }, 0, tick);
      } else return;
    }
  };
  if (ring) computeFirstStage(0, computed);
  let tick = 0;
  for (; computed.backward.some((count, stage) => stageTakesTime(plan, stage) && count < microBatches); tick++) {
    // All ranks choose their next pass from the passes that were computed in earlier ticks.
    const earlier = { forward: [...computed.forward], backward: [...computed.backward] };
    for (let rank = 0; rank < ranks; rank++) {
      const pass = nextPassOfRank(schedule, plan, rank, earlier);
      if (pass) compute(pass, rank, tick);
    }
    if (ring) computeFirstStage(tick, earlier);
  }
  if (ring) computeFirstStage(tick - 1, computed);
  return { ...plan, passes, ticks: tick };
}

/**
 * Returns the pass that `rank` computes next by a schedule; `null` if it has to wait. Passes of
 * stages that do not {@link stageTakesTime} are not considered.
 */
export function nextPassOfRank(
  schedule: ScheduleName,
  plan: PlanSize,
  rank: number,
  computed: ComputedPassCounts,
): MicroBatchPass | null {
  const { stages, microBatches } = plan;
  const stage = stagesOfRank(plan, rank).at(-1)!;
  const forward = computed.forward[stage]!;
  const backward = computed.backward[stage]!;
  const passes: MicroBatchPass[] = [];
  // With GPipe, a rank computes all its forward passes first.
  if (backward < microBatches && (schedule === '1f1b' || forward === microBatches)) {
    passes.push({ kind: 'backward', stage, microBatch: backward });
  }
  if (forward < microBatches && forward - backward < mostMicroBatchesInFlight(schedule, plan, stage)) {
    passes.push({ kind: 'forward', stage, microBatch: forward });
  }
  return passes.find((pass) => isInputPassComputed(pass, stages, computed)) ?? null;
}

/** Returns the pass whose result a pass needs; `null` if it needs none. */
export function inputPassOf({ kind, stage, microBatch }: MicroBatchPass, stages: number): MicroBatchPass | null {
  if (kind === 'forward') return stage === 0 ? null : { kind, stage: stage - 1, microBatch };
  if (stage === stages - 1) return { kind: 'forward', stage, microBatch };
  return { kind, stage: stage + 1, microBatch };
}

/** Returns whether the pass whose result `pass` needs has been computed. */
export function isInputPassComputed(pass: MicroBatchPass, stages: number, computed: ComputedPassCounts): boolean {
  const input = inputPassOf(pass, stages);
  return input === null || computed[input.kind][input.stage]! > input.microBatch;
}

function keyOf({ kind, stage, microBatch }: MicroBatchPass): string {
  return `${kind}/${stage}/${microBatch}`;
}

function checkCount(name: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 1) return;
  throw new UsageError(`The number of ${name} is ${value}. Pass a whole number of at least 1.`);
}
