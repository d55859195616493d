/**
 * The game of the lesson: a person decides what one stage computes in each tick. The other stages
 * follow 1F1B. Pure.
 */
import {
  isInputPassComputed,
  inputPassOf,
  nextPassOfRank,
  type MicroBatchPass,
  type PassKind,
  type PipelinePlan,
} from '../../../parallel/pipeline/schedules.ts';
import {
  countComputedPasses,
  keptActivationsByStage,
  lessonPipelinePlan,
  pipelinePlanUntil,
  type LessonPipelineSize,
} from './board.ts';

export type YourTurnChoice = PassKind | 'wait';

export type YourTurnVerdict =
  | { kind: 'ready' }
  /** Nothing was computed, because the stage has computed all passes of this kind. */
  | { kind: 'done'; of: PassKind }
  /** Nothing was computed, because `pass` needs the result of `needs`. */
  | { kind: 'impossible'; pass: MicroBatchPass; needs: MicroBatchPass }
  /**
   * The pass was computed. With `early`, a backward pass was possible and would have freed memory.
   * With `more`, the stage now keeps more activations than with 1F1B.
   */
  | { kind: 'forward' | 'backward' | 'early' | 'more'; pass: MicroBatchPass }
  /**
   * The stage waited. With `bubble`, no pass was possible. With `full`, a forward pass was
   * possible, but the stage already keeps as many activations as 1F1B allows. With `idle`, a useful
   * pass was possible.
   */
  | { kind: 'bubble' | 'full' | 'idle' };

export interface YourTurnState {
  /** The stage of the person. */
  stage: number;
  /** The passes that were computed so far. */
  plan: PipelinePlan;
  verdict: YourTurnVerdict;
}

export function startYourTurn(size: LessonPipelineSize, stage: number): YourTurnState {
  return { stage, plan: pipelinePlanUntil(lessonPipelinePlan('1f1b', size), 0), verdict: { kind: 'ready' } };
}

export function isYourTurnFinished({ plan }: Pick<YourTurnState, 'plan'>): boolean {
  return countComputedPasses(plan).backward.every((count) => count === plan.microBatches);
}

/** Returns the next pass of this kind at the person's stage; `null` if all are computed. */
export function nextPassOfKind({ plan, stage }: Omit<YourTurnState, 'verdict'>, kind: PassKind): MicroBatchPass | null {
  const microBatch = countComputedPasses(plan)[kind][stage]!;
  return microBatch < plan.microBatches ? { kind, stage, microBatch } : null;
}

/** Returns the largest number of micro-batches that the person's stage would keep with 1F1B. */
export function maxKeptMicroBatches({ plan: { stages, microBatches }, stage }: Omit<YourTurnState, 'verdict'>): number {
  return keptActivationsByStage(lessonPipelinePlan('1f1b', { stages, microBatches }))[stage]!.most;
}

/** Returns the choice that 1F1B would make. */
export function nextPassOf1F1B({ plan, stage }: YourTurnState): YourTurnChoice {
  return nextPassOfRank('1f1b', plan, stage, countComputedPasses(plan))?.kind ?? 'wait';
}

/** Computes the person's choice and one tick of all other stages, if the choice is possible. */
export function applyYourTurnChoice(turn: YourTurnState, choice: YourTurnChoice): YourTurnState {
  const { plan, stage } = turn;
  if (isYourTurnFinished(turn)) return turn;
  const pass = choice === 'wait' ? null : nextPassOfKind(turn, choice);
  if (choice !== 'wait' && pass === null) return { ...turn, verdict: { kind: 'done', of: choice } };
  const computed = countComputedPasses(plan);
  if (pass !== null && !isInputPassComputed(pass, plan.stages, computed)) {
    return { ...turn, verdict: { kind: 'impossible', pass, needs: inputPassOf(pass, plan.stages)! } };
  }
  const passes = plan.passes.map((own, rank) => {
    const next = rank === stage ? pass : nextPassOfRank('1f1b', plan, rank, computed);
    return next === null ? own : [...own, { ...next, tick: plan.ticks }];
  });
  return { stage, plan: { ...plan, passes, ticks: plan.ticks + 1 }, verdict: verdictOn(turn, pass) };
}

function verdictOn(turn: YourTurnState, pass: MicroBatchPass | null): YourTurnVerdict {
  const { plan, stage } = turn;
  const computed = countComputedPasses(plan);
  const isPossible = (kind: PassKind): boolean => {
    const other = nextPassOfKind(turn, kind);
    return other !== null && isInputPassComputed(other, plan.stages, computed);
  };
  const isFull = keptActivationsByStage(plan)[stage]!.now.length >= maxKeptMicroBatches(turn);
  if (pass === null) {
    if (isPossible('backward')) return { kind: 'idle' };
    if (!isPossible('forward')) return { kind: 'bubble' };
    return { kind: isFull ? 'full' : 'idle' };
  }
  if (pass.kind === 'backward') return { kind: 'backward', pass };
  if (isPossible('backward')) return { kind: 'early', pass };
  return { kind: isFull ? 'more' : 'forward', pass };
}
