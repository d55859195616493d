/**
 * The game of the lesson: a person decides what one stage computes in each tick. The other stages
 * follow 1F1B. Pure.
 */
import {
  hasInput,
  inputOf,
  nextPass,
  type Pass,
  type PassKind,
  type PipelinePlan,
} from '../../../parallel/pipeline/schedules.ts';
import { computedIn, keptIn, planFor, planUntil, type PipelineSize } from './board.ts';

export type Choice = PassKind | 'wait';

export type Verdict =
  | { kind: 'ready' }
  /** Nothing was computed, because the stage has computed all passes of this kind. */
  | { kind: 'done'; of: PassKind }
  /** Nothing was computed, because `pass` needs the result of `needs`. */
  | { kind: 'impossible'; pass: Pass; needs: Pass }
  /**
   * The pass was computed. With `early`, a backward pass was possible and would have freed memory.
   * With `more`, the stage now keeps more activations than with 1F1B.
   */
  | { kind: 'forward' | 'backward' | 'early' | 'more'; pass: Pass }
  /**
   * The stage waited. With `bubble`, no pass was possible. With `full`, a forward pass was
   * possible, but the stage already keeps as many activations as 1F1B allows. With `idle`, a useful
   * pass was possible.
   */
  | { kind: 'bubble' | 'full' | 'idle' };

export interface Turn {
  /** The stage of the person. */
  stage: number;
  /** The passes that were computed so far. */
  plan: PipelinePlan;
  verdict: Verdict;
}

export function startTurn(size: PipelineSize, stage: number): Turn {
  return { stage, plan: planUntil(planFor('1f1b', size), 0), verdict: { kind: 'ready' } };
}

export function isFinished({ plan }: Pick<Turn, 'plan'>): boolean {
  return computedIn(plan).backward.every((count) => count === plan.microBatches);
}

/** Returns the next pass of this kind at the person's stage; `null` if all are computed. */
export function passOf({ plan, stage }: Omit<Turn, 'verdict'>, kind: PassKind): Pass | null {
  const microBatch = computedIn(plan)[kind][stage]!;
  return microBatch < plan.microBatches ? { kind, stage, microBatch } : null;
}

/** Returns the largest number of micro-batches that the person's stage would keep with 1F1B. */
export function usuallyKept({ plan: { stages, microBatches }, stage }: Omit<Turn, 'verdict'>): number {
  return keptIn(planFor('1f1b', { stages, microBatches }))[stage]!.most;
}

/** Returns the choice that 1F1B would make. */
export function nextPassOf1F1B({ plan, stage }: Turn): Choice {
  return nextPass('1f1b', plan, stage, computedIn(plan))?.kind ?? 'wait';
}

/** Computes the person's choice and one tick of all other stages, if the choice is possible. */
export function decide(turn: Turn, choice: Choice): Turn {
  const { plan, stage } = turn;
  if (isFinished(turn)) return turn;
  const pass = choice === 'wait' ? null : passOf(turn, choice);
  if (choice !== 'wait' && pass === null) return { ...turn, verdict: { kind: 'done', of: choice } };
  const computed = computedIn(plan);
  if (pass !== null && !hasInput(pass, plan.stages, computed)) {
    return { ...turn, verdict: { kind: 'impossible', pass, needs: inputOf(pass, plan.stages)! } };
  }
  const passes = plan.passes.map((own, rank) => {
    const next = rank === stage ? pass : nextPass('1f1b', plan, rank, computed);
    return next === null ? own : [...own, { ...next, tick: plan.ticks }];
  });
  return { stage, plan: { ...plan, passes, ticks: plan.ticks + 1 }, verdict: verdictOn(turn, pass) };
}

function verdictOn(turn: Turn, pass: Pass | null): Verdict {
  const { plan, stage } = turn;
  const computed = computedIn(plan);
  const isPossible = (kind: PassKind): boolean => {
    const other = passOf(turn, kind);
    return other !== null && hasInput(other, plan.stages, computed);
  };
  const isFull = keptIn(plan)[stage]!.now.length >= usuallyKept(turn);
  if (pass === null) {
    if (isPossible('backward')) return { kind: 'idle' };
    if (!isPossible('forward')) return { kind: 'bubble' };
    return { kind: isFull ? 'full' : 'idle' };
  }
  if (pass.kind === 'backward') return { kind: 'backward', pass };
  if (isPossible('backward')) return { kind: 'early', pass };
  return { kind: isFull ? 'more' : 'forward', pass };
}
